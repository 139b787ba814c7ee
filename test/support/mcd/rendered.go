// SPDX-License-Identifier: Apache-2.0

package mcd

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/coreos/ignition/v2/config/v3_4"
	"github.com/coreos/ignition/v2/config/v3_4/types"
	"sigs.k8s.io/yaml"
)

// Rendered is the render controller's result for all MachineConfigs of a pool. The zero value
// contains neither files nor units. It is immutable.
type Rendered struct {
	Name string // rendered-master-HASH; equal contents give equal names

	ignition types.Config
	host     hostSpec
}

// hostSpec holds the fields of a MachineConfig besides Ignition. Each change needs a reboot
// (pkg/daemon/update.go, calculatePostConfigChangeNodeDisruptionAction).
type hostSpec struct {
	OSImageURL      string   `json:"osImageURL,omitempty"`
	KernelArguments []string `json:"kernelArguments,omitempty"`
}

type machineConfig struct {
	metav1.TypeMeta
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     struct {
		hostSpec

		Config json.RawMessage `json:"config"`
	} `json:"spec"`

	ignition types.Config
}

// Merge renders MachineConfigs, one YAML document each, as the render controller does
// (pkg/controller/common/helpers.go, MergeMachineConfigs): in the order of their names,
// later ones win. All are of the pool master. Ignition is supported up to 3.4, the maximum
// of 4.17.
func Merge(objects ...[]byte) (Rendered, error) {
	configs := make([]machineConfig, 0, len(objects))
	for i, object := range objects {
		c, err := parse(object)
		if err != nil {
			return Rendered{}, fmt.Errorf("object %d: %w", i+1, err)
		}
		configs = append(configs, c)
	}
	if len(configs) == 0 {
		return Rendered{}, nil
	}
	slices.SortFunc(configs, func(a, b machineConfig) int { return strings.Compare(a.Metadata.Name, b.Metadata.Name) })
	r := Rendered{ignition: configs[0].ignition}
	for i, c := range configs {
		if i > 0 {
			r.ignition = mergeIgnition(r.ignition, c.ignition)
		}
		r.host.KernelArguments = append(r.host.KernelArguments, c.Spec.KernelArguments...)
		r.host.OSImageURL = cmp.Or(c.Spec.OSImageURL, r.host.OSImageURL)
	}
	// Ignition itself would reject the replacement of an image's file on a new node; the
	// daemon never checks it.
	for i := range r.ignition.Storage.Files {
		if f := &r.ignition.Storage.Files[i]; f.Overwrite == nil {
			f.Overwrite = new(true)
		}
	}
	for _, u := range r.ignition.Systemd.Units {
		if u.Contents == nil {
			return Rendered{}, fmt.Errorf("unit %s has no contents", u.Name)
		}
	}
	return r, r.setName()
}

func parse(object []byte) (machineConfig, error) {
	var c machineConfig
	if err := yaml.Unmarshal(object, &c); err != nil {
		return c, err
	}
	if c.APIVersion != "machineconfiguration.openshift.io/v1" || c.Kind != "MachineConfig" || c.Metadata.Name == "" {
		return c, fmt.Errorf("not a named MachineConfig: %s %s %q", c.APIVersion, c.Kind, c.Metadata.Name)
	}
	if role := c.Metadata.Labels["machineconfiguration.openshift.io/role"]; role != "master" {
		return c, fmt.Errorf("MachineConfig %s is for pool %q, not master", c.Metadata.Name, role)
	}
	if len(c.Spec.Config) == 0 {
		c.ignition.Ignition.Version = types.MaxVersion.String()
		return c, nil
	}
	parsed, report, err := v3_4.ParseCompatibleVersion(c.Spec.Config)
	if err != nil {
		return c, fmt.Errorf("parse the Ignition config of %s: %w: %s", c.Metadata.Name, err, report)
	}
	for _, f := range parsed.Storage.Files {
		// pkg/controller/common/helpers.go, validateIgn3FileModes
		if f.Mode != nil && (*f.Mode < 0 || *f.Mode > int(fs.ModePerm)) {
			return c, fmt.Errorf("%s in %s: the MCO rejects mode %#o: it is over 0777", f.Path, c.Metadata.Name, *f.Mode)
		}
	}
	// The daemon cannot change most other sections on a running host
	// (pkg/controller/common/reconcile.go, isConfigReconcilable).
	others := parsed
	others.Ignition, others.Storage.Files, others.Systemd = types.Ignition{}, nil, types.Systemd{}
	if !reflect.ValueOf(others).IsZero() {
		return c, fmt.Errorf("MachineConfig %s has more than files and units", c.Metadata.Name)
	}
	c.ignition = parsed
	return c, nil
}

// mergeIgnition prevents that a plain file inherits the compression of the compressed file
// that it replaces: Ignition merges field by field (coreos/butane issue 332).
func mergeIgnition(parent, child types.Config) types.Config {
	child.Storage.Files = slices.Clone(child.Storage.Files)
	for i := range child.Storage.Files {
		if f := &child.Storage.Files[i]; f.Contents.Compression == nil {
			f.Contents.Compression = new("")
		}
	}
	merged := v3_4.Merge(parent, child)
	for i := range merged.Storage.Files {
		if f := &merged.Storage.Files[i]; f.Contents.Compression != nil && *f.Contents.Compression == "" {
			f.Contents.Compression = nil
		}
	}
	return merged
}

// setName sets the name of the finished config.
func (r *Rendered) setName() error {
	content, err := json.Marshal(struct {
		hostSpec

		Config types.Config `json:"config"`
	}{r.host, r.ignition})
	if err != nil {
		return fmt.Errorf("encode the rendered config: %w", err)
	}
	r.Name = fmt.Sprintf("rendered-master-%x", sha256.Sum256(content))
	return nil
}
