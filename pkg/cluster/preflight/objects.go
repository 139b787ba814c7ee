// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/chain"
	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/disruption"
	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/machineconfig"
	"github.com/http01-proxyd/http01-proxyd/pkg/config"
)

// Objects are the objects of a cluster and of rendered files.
type Objects struct {
	live     *machineConfiguration
	rendered *machineConfiguration
	// policyFolder contains the rendered policy and apply.sh; empty if it is unknown.
	policyFolder string
	pools        []pool
	layered      []layeredPool
	configs      []machineConfig
	version      *clusterVersion
	// apiServer has the named certificates, and secrets some of theirs.
	apiServer *chain.Object
	secrets   []chain.Object
	// layeredKnown: the files show whether there are MachineOSConfigs. A List of other
	// kinds does not: it is the same if that kind was not queried.
	layeredKnown bool
}

// sourceRemediation names the source of the objects.
const sourceRemediation = `give the output of "oc get KIND -o yaml", or files of "oc http01 render"`

// kinds maps the kinds to their versions.
func kinds() map[string]string {
	const group = "machineconfiguration.openshift.io/v1"
	return map[string]string{
		"MachineConfiguration": "operator.openshift.io/v1",
		"MachineConfigPool":    group, "MachineOSConfig": group, "MachineConfig": group,
		"ClusterVersion": "config.openshift.io/v1", "APIServer": "config.openshift.io/v1", "Secret": "v1",
	}
}

// Parse reads the files. The error contains all problems.
func Parse(files []machineconfig.Input) (Objects, error) {
	read, err := machineconfig.ReadObjects(files, kinds(), sourceRemediation)
	if err != nil {
		return Objects{}, err
	}
	o := Objects{layeredKnown: read.EmptyLists > 0}
	var problems []error
	for _, object := range read.Objects {
		problems = append(problems, o.add(object))
		o.layeredKnown = o.layeredKnown || object.Kind == "MachineOSConfig" && object.InList
	}
	return o, errors.Join(problems...)
}

func (o *Objects) add(object machineconfig.ReadObject) error {
	switch object.Kind {
	case "MachineConfiguration": // only the cluster sets a generation
		var c machineConfiguration
		err := object.Load(&c)
		if c.Metadata.Generation > 0 || c.Status != nil {
			return errors.Join(err, set(object, &o.live))
		}
		folder := filepath.Dir(object.File)
		if _, noScript := os.Stat(filepath.Join(folder, "apply.sh")); noScript == nil { // other layouts have none
			o.policyFolder = folder
		}
		return errors.Join(err, set(object, &o.rendered))
	case "MachineConfigPool":
		return add(object, &o.pools)
	case "MachineOSConfig":
		return add(object, &o.layered)
	case "MachineConfig":
		err := add(object, &o.configs)
		return errors.Join(err, object.Load(&o.configs[len(o.configs)-1].fields))
	case "APIServer":
		return set(object, &o.apiServer)
	case "Secret":
		return add(object, &o.secrets)
	default:
		return set(object, &o.version)
	}
}

func add[T any](object machineconfig.ReadObject, to *[]T) error {
	var value T
	err := object.Load(&value)
	*to = append(*to, value)
	return err
}

// set sets the one object of a kind. The API server accepts no other name.
func set[T any](object machineconfig.ReadObject, to **T) error {
	if *to != nil {
		return config.Problem{Where: object.File, Message: "a second " + object.Kind, Remediation: "give one"}
	}
	*to = new(T)
	return object.Load(*to)
}

type metadata struct {
	Name       string            `json:"name"`
	Generation int64             `json:"generation"`
	Labels     map[string]string `json:"labels"`
}

// machineConfiguration is a MachineConfiguration of operator.openshift.io/v1.
type machineConfiguration struct {
	Metadata metadata `json:"metadata"`
	Spec     struct {
		Policy disruption.Policy `json:"nodeDisruptionPolicy"`
	} `json:"spec"`
	Status *struct {
		ObservedGeneration int64 `json:"observedGeneration"`
		PolicyStatus       struct {
			Policies disruption.Policy `json:"clusterPolicies"`
		} `json:"nodeDisruptionPolicyStatus"`
	} `json:"status"`
}

// pool is a MachineConfigPool.
type pool struct {
	Metadata metadata `json:"metadata"`
	Spec     struct {
		Paused        bool `json:"paused"`
		OSImageStream struct {
			Name string `json:"name"`
		} `json:"osImageStream"`
	} `json:"spec"`
	Status struct {
		Conditions []struct {
			Type    string `json:"type"`
			Status  string `json:"status"`
			Message string `json:"message"`
		} `json:"conditions"`
	} `json:"status"`
}

// layeredPool is a MachineOSConfig.
type layeredPool struct {
	Metadata metadata `json:"metadata"`
	Spec     struct {
		Pool struct {
			Name string `json:"name"`
		} `json:"machineConfigPool"`
	} `json:"spec"`
}

// machineConfig is a MachineConfig with the names of its files and units.
type machineConfig struct {
	Metadata metadata `json:"metadata"`
	Spec     struct {
		OSImageURL string `json:"osImageURL"`
		Config     struct {
			Storage struct {
				Files []struct {
					Path     string `json:"path"`
					Contents struct {
						Compression string `json:"compression"`
					} `json:"contents"`
				} `json:"files"`
			} `json:"storage"`
			Systemd struct {
				Units []struct {
					Name string `json:"name"`
				} `json:"units"`
			} `json:"systemd"`
		} `json:"config"`
	} `json:"spec"`

	fields struct {
		Spec map[string]any `json:"spec"`
	}
}

// keys returns the paths of the files and the names of the units.
func (m machineConfig) keys() (all []string) {
	for _, f := range m.Spec.Config.Storage.Files {
		all = append(all, f.Path)
	}
	for _, u := range m.Spec.Config.Systemd.Units {
		all = append(all, u.Name)
	}
	return all
}

// otherFields returns the names of the fields, except files and units, that have a value.
func (m machineConfig) otherFields() (all []string) {
	for name, value := range m.fields.Spec {
		if config, is := value.(map[string]any); is && name == "config" {
			name, value = "passwd", config["passwd"]
		}
		if !slices.Contains([]string{"", "false", "[]", "map[]", "<nil>"}, fmt.Sprint(value)) {
			all = append(all, name)
		}
	}
	return slices.Sorted(slices.Values(all))
}

// compressed returns the paths of compressed files.
func (m machineConfig) compressed() (all []string) {
	for _, f := range m.Spec.Config.Storage.Files {
		if f.Contents.Compression != "" {
			all = append(all, f.Path)
		}
	}
	return all
}

// clusterVersion is the ClusterVersion, which names the release of the cluster.
type clusterVersion struct {
	Status struct {
		Desired struct {
			Version string `json:"version"`
		} `json:"desired"`
		History []struct {
			State   string `json:"state"`
			Version string `json:"version"`
		} `json:"history"`
	} `json:"status"`
}

// release returns the release that the cluster completed last: during an upgrade, nodes may
// still run the older one.
func (v *clusterVersion) release() string {
	if v == nil {
		return ""
	}
	for _, h := range v.Status.History {
		if h.State == "Completed" {
			return h.Version
		}
	}
	return v.Status.Desired.Version
}
