// SPDX-License-Identifier: Apache-2.0

package validator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	// The modules hold the CRDs as plain files; the imports keep them in go.mod.
	_ "github.com/openshift/api/machineconfiguration/v1/zz_generated.crd-manifests"
	_ "github.com/openshift/api/operator/v1/zz_generated.crd-manifests"
	_ "github.com/prometheus-operator/prometheus-operator/pkg/versionutil"
)

// Validator validates MachineConfig, MachineConfiguration, MachineOSConfig, PrometheusRule
// and ServiceMonitor as an API server without storage does. It is safe for concurrent use.
type Validator struct {
	kinds map[schema.GroupVersionKind]*kind
}

// Load reads and compiles the schemas, which takes about a second.
func Load(ctx context.Context) (*Validator, error) {
	j := &Validator{kinds: map[schema.GroupVersionKind]*kind{}}
	for module, files := range map[string][]string{
		"github.com/openshift/api": {
			"config/v1/zz_generated.crd-manifests/0000_10_config-operator_01_clusterimagepolicies.crd.yaml",
			"machineconfiguration/v1/zz_generated.crd-manifests/0000_80_machine-config_01_machineconfigs.crd.yaml",
			"machineconfiguration/v1/zz_generated.crd-manifests/0000_80_machine-config_01_machineosconfigs.crd.yaml",
			"operator/v1/zz_generated.crd-manifests/0000_80_machine-config_01_machineconfigurations.crd.yaml",
		},
		"github.com/prometheus-operator/prometheus-operator": {
			"example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml",
			"example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml",
		},
	} {
		dir, err := ModuleDir(ctx, module)
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			raw, err := os.ReadFile(filepath.Join(dir, f))
			if err != nil {
				return nil, fmt.Errorf("read a CRD of %s: %w", module, err)
			}
			if err := j.add(raw); err != nil {
				return nil, fmt.Errorf("CRD %s: %w", f, err)
			}
		}
	}
	return j, nil
}

// New returns a Validator of the given CRDs only.
func New(crds ...[]byte) (*Validator, error) {
	j := &Validator{kinds: map[schema.GroupVersionKind]*kind{}}
	for _, crd := range crds {
		if err := j.add(crd); err != nil {
			return nil, err
		}
	}
	return j, nil
}

// ModuleDir returns the directory of a module in go.mod.
func ModuleDir(ctx context.Context, module string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module)
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("find the CRDs of %s by the go command: %w", module, err)
	}
	return strings.TrimSpace(string(out)), nil
}

// Has reports whether there is a CRD for a kind.
func (j *Validator) Has(kind schema.GroupVersionKind) bool { return j.kinds[kind] != nil }

func (j *Validator) add(crd []byte) error {
	kinds, err := parseCRD(crd)
	if err != nil {
		return err
	}
	for _, k := range kinds {
		j.kinds[k.gvk] = k
	}
	return nil
}

// Object validates one YAML document as the API server validates a new object with strict
// field validation, which kubectl and oc request. Unknown and repeated fields are errors.
func (j *Validator) Object(document []byte) error {
	_, err := j.create(document)
	return err
}

// MachineConfig validates a MachineConfig as Object does, and its config as Ignition does.
func (j *Validator) MachineConfig(document []byte) error {
	u, err := j.create(document)
	if err != nil {
		return err
	}
	config, found, err := unstructured.NestedMap(u.Object, "spec", "config")
	if err != nil || !found || u.GetKind() != "MachineConfig" {
		return asError(u, errors.New("not a MachineConfig with spec.config"), err)
	}
	raw, err := json.Marshal(config)
	if err != nil {
		return asError(u, err)
	}
	return asError(u, Ignition(raw))
}

// create returns the object as it would be stored.
func (j *Validator) create(document []byte) (*unstructured.Unstructured, error) {
	u, k, err := j.decode(document)
	if err != nil {
		return nil, err
	}
	if k.hasStatus {
		unstructured.RemoveNestedField(u.Object, "status")
	}
	k.setDefaults(u)
	return u, asError(u, k.validateCreate(context.Background(), u))
}

// Update validates the second document as an update of the first one, which is accepted as
// stored. Rules can compare the two, and unchanged invalid values pass.
func (j *Validator) Update(before, after []byte) error {
	old, k, err := j.decode(before)
	if err != nil {
		return fmt.Errorf("the stored object: %w", err)
	}
	u, to, err := j.decode(after)
	if err != nil {
		return err
	}
	if k != to {
		return fmt.Errorf("a %s cannot become a %s", k.gvk.Kind, to.gvk.Kind)
	}
	k.setDefaults(old)
	k.setDefaults(u)
	return k.update(old, u)
}

// decode decodes a document with strict field validation.
func (j *Validator) decode(document []byte) (*unstructured.Unstructured, *kind, error) {
	u, k, unknown, err := j.read(document)
	if err != nil {
		return nil, nil, err
	}
	var errs []error
	for _, f := range unknown {
		errs = append(errs, fmt.Errorf("unknown field %q", f))
	}
	return u, k, asError(u, errs...)
}

// read decodes a document, removes fields that the schema lacks, and returns their names.
func (j *Validator) read(document []byte) (u *unstructured.Unstructured, k *kind, unknown []string, err error) {
	raw, err := yaml.YAMLToJSONStrict(document)
	if err != nil {
		return nil, nil, nil, err
	}
	u = &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(raw); err != nil {
		return nil, nil, nil, err
	}
	k = j.kinds[u.GroupVersionKind()]
	if k == nil {
		return nil, nil, nil, fmt.Errorf("no schema for %s", u.GroupVersionKind())
	}
	unknown, err = k.coerce(u)
	return u, k, unknown, err
}
