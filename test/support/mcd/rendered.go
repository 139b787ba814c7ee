// SPDX-License-Identifier: Apache-2.0

package mcd

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
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

const (
	roleLabel = "machineconfiguration.openshift.io/role"
	// maxRendered is the maximum size in bytes of a rendered MachineConfig, which must fit
	// into etcd (pkg/controller/common/constants.go, MaxMachineConfigSize).
	maxRendered = 1536 * 1024
)

// Rendered is the render controller's result for all MachineConfigs of a pool. The zero
// value has neither files nor units. It is immutable.
type Rendered struct {
	Name string // rendered-POOL-HASH; equal contents have equal names
	Pool string

	ignition types.Config
	host     hostSpec
}

// hostSpec has the fields of a MachineConfig besides Ignition. Each change needs a reboot
// (pkg/daemon/update.go, calculatePostConfigChangeNodeDisruptionAction).
type hostSpec struct {
	OSImageURL      string   `json:"osImageURL,omitempty"`
	KernelArguments []string `json:"kernelArguments,omitempty"`
	Extensions      []string `json:"extensions,omitempty"`
	FIPS            bool     `json:"fips,omitempty"`
	KernelType      string   `json:"kernelType,omitempty"`
}

func (s hostSpec) equal(o hostSpec) bool {
	return s.OSImageURL == o.OSImageURL && s.FIPS == o.FIPS && s.KernelType == o.KernelType &&
		slices.Equal(s.KernelArguments, o.KernelArguments) && slices.Equal(s.Extensions, o.Extensions)
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
// later ones win. Those of a custom pool follow those of the worker pool that it inherits.
// Ignition is supported up to 3.4, the maximum of 4.17.
func Merge(objects ...[]byte) (Rendered, error) {
	configs := make([]machineConfig, 0, len(objects))
	for i, object := range objects {
		c, err := parse(object)
		if err != nil {
			return Rendered{}, fmt.Errorf("object %d: %w", i+1, err)
		}
		configs = append(configs, c)
	}
	pool, err := order(configs)
	if err != nil || len(configs) == 0 {
		return Rendered{}, err
	}
	r := Rendered{Pool: pool, ignition: configs[0].ignition}
	for i, c := range configs {
		if i > 0 {
			r.ignition = mergeIgnition(r.ignition, c.ignition)
		}
		r.host.add(c.Spec.hostSpec)
	}
	// Ignition itself would reject the replacement of an image's file on a new node; the
	// daemon never checks it.
	for i := range r.ignition.Storage.Files {
		if f := &r.ignition.Storage.Files[i]; f.Overwrite == nil {
			f.Overwrite = new(true)
		}
	}
	return r, r.setName()
}

func parse(object []byte) (machineConfig, error) {
	var c machineConfig
	if err := unmarshal(object, &c); err != nil {
		return c, err
	}
	if c.APIVersion != "machineconfiguration.openshift.io/v1" || c.Kind != "MachineConfig" || c.Metadata.Name == "" {
		return c, fmt.Errorf("not a named MachineConfig: %s %s %q", c.APIVersion, c.Kind, c.Metadata.Name)
	}
	if c.Metadata.Labels[roleLabel] == "" {
		return c, fmt.Errorf("MachineConfig %s belongs to no pool: it lacks the label %s", c.Metadata.Name, roleLabel)
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
	c.ignition = parsed
	return c, nil
}

// unmarshal rejects further documents, which the YAML library ignores.
func unmarshal(document []byte, into any) error {
	begun := false
	for line := range strings.Lines(string(document)) {
		line = strings.TrimRight(line, " \r\n")
		separator := line == "---" || strings.HasPrefix(line, "--- ")
		if separator && begun {
			return errors.New("more than one YAML document")
		}
		begun = begun || (!separator && line != "" && !strings.HasPrefix(line, "#"))
	}
	return yaml.Unmarshal(document, into)
}

// order sorts the objects of one pool and returns the pool's name.
func order(configs []machineConfig) (pool string, err error) {
	const worker = "worker"
	pool = worker
	for _, c := range configs {
		role := c.Metadata.Labels[roleLabel]
		if role != worker && pool != worker && role != pool {
			return "", fmt.Errorf("MachineConfig %s is for pool %s, others are for %s", c.Metadata.Name, role, pool)
		}
		if role != worker {
			pool = role
		}
	}
	slices.SortStableFunc(configs, func(a, b machineConfig) int {
		aOfPool, bOfPool := a.Metadata.Labels[roleLabel] != worker, b.Metadata.Labels[roleLabel] != worker
		if aOfPool != bOfPool {
			if bOfPool {
				return -1
			}
			return 1
		}
		return strings.Compare(a.Metadata.Name, b.Metadata.Name)
	})
	for i, c := range configs {
		if i > 0 && c.Metadata.Name == configs[i-1].Metadata.Name {
			return "", fmt.Errorf("two MachineConfigs are called %s", c.Metadata.Name)
		}
		if pool == "master" && c.Metadata.Labels[roleLabel] == worker {
			return "", fmt.Errorf("MachineConfig %s is for pool %s, others are for %s", c.Metadata.Name, worker, pool)
		}
	}
	return pool, nil
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

func (s *hostSpec) add(o hostSpec) {
	s.KernelArguments = append(s.KernelArguments, o.KernelArguments...)
	s.Extensions = append(s.Extensions, o.Extensions...)
	s.FIPS = s.FIPS || o.FIPS
	if o.OSImageURL != "" {
		s.OSImageURL = o.OSImageURL
	}
	if o.KernelType != "" && o.KernelType != "default" {
		s.KernelType = o.KernelType
	}
}

// setName sets the name of the finished config and checks its size
// (pkg/controller/common/helpers.go, ValidateMachineConfigSize).
func (r *Rendered) setName() error {
	content, err := json.Marshal(struct {
		hostSpec

		Config types.Config `json:"config"`
	}{r.host, r.ignition})
	if err != nil {
		return fmt.Errorf("encode the rendered config of pool %s: %w", r.Pool, err)
	}
	if len(content) > maxRendered {
		return fmt.Errorf("the rendered config of pool %s has %d bytes, the MCO allows %d", r.Pool, len(content), maxRendered)
	}
	r.Name = fmt.Sprintf("rendered-%s-%x", r.Pool, sha256.Sum256(content))[:len("rendered-")+len(r.Pool)+1+32]
	return nil
}

// reconcilable rejects changes that the daemon cannot make on a running host
// (pkg/controller/common/reconcile.go, isConfigReconcilable).
func reconcilable(from, to Rendered) error {
	a, b := from.ignition, to.ignition
	var errs []error
	for _, section := range []struct {
		name     string
		from, to any
	}{
		{"passwd", a.Passwd, b.Passwd}, // SSH keys of core are allowed, and omitted here
		{"kernelArguments", a.KernelArguments, b.KernelArguments},
		{"disks", a.Storage.Disks, b.Storage.Disks},
		{"filesystems", a.Storage.Filesystems, b.Storage.Filesystems},
		{"raid", a.Storage.Raid, b.Storage.Raid},
		{"directories", a.Storage.Directories, b.Storage.Directories},
	} {
		if !reflect.DeepEqual(section.from, section.to) {
			errs = append(errs, fmt.Errorf("ignition section %s changes", section.name))
		}
	}
	if len(b.Storage.Links) > 0 && !reflect.DeepEqual(a.Storage.Links, b.Storage.Links) {
		errs = append(errs, errors.New("ignition section links changes"))
	}
	for _, f := range b.Storage.Files {
		if len(f.Append) > 0 {
			errs = append(errs, fmt.Errorf("%s has an append", f.Path))
		}
	}
	if from.host.FIPS != to.host.FIPS {
		errs = append(errs, errors.New("the FIPS flag changes"))
	}
	return errors.Join(errs...)
}
