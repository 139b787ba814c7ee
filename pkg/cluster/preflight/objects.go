// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"errors"
	"fmt"
	"slices"

	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/disruption"
	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/machineconfig"
	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/servingcerts"
	"github.com/http01-proxyd/http01-proxyd/pkg/config"
)

// Objects are the objects of a cluster, and those of rendered files.
type Objects struct {
	live     *machineConfiguration
	rendered *machineConfiguration
	pools    []pool
	layered  []layeredPool
	configs  []machineConfig
	version  *clusterVersion
	// apiServer has the named certificates.
	apiServer *apiServer
	// layeredKnown: the files show whether there are MachineOSConfigs. A List of other
	// kinds does not: it is the same if that kind was not queried.
	layeredKnown bool
	files        []string // of the objects, in order
}

// sourceRemediation names the source of the objects.
const sourceRemediation = `give the output of "oc get KIND -o yaml", or files of "oc http01 render"`

// Parse reads the files. Warnings are unknown fields, which strict rejects. The error
// contains all problems, with their positions.
func Parse(files []machineconfig.Input, strict bool) (Objects, []string, error) {
	read, err := machineconfig.ReadObjects(files, kinds(), strict, sourceRemediation)
	if err != nil {
		return Objects{}, nil, err
	}
	o := Objects{layeredKnown: read.EmptyLists > 0}
	var problems []error
	for _, object := range read.Objects {
		problems = append(problems, o.add(object))
		if !slices.Contains(o.files, object.File) {
			o.files = append(o.files, object.File)
		}
		o.layeredKnown = o.layeredKnown || object.Kind == kindOSConfig && object.InList > 0
	}
	return o, read.Warnings, errors.Join(problems...)
}

func (o *Objects) add(object machineconfig.ReadObject) error {
	switch object.Kind {
	case kindConfiguration:
		return o.addConfiguration(object)
	case kindPool:
		return add(object, &o.pools)
	case kindOSConfig:
		return add(object, &o.layered)
	case kindConfig:
		return add(object, &o.configs)
	case kindAPIServer:
		return o.addAPIServer(object)
	default:
		var v clusterVersion
		err := object.Load(&v)
		o.version = &v
		return err
	}
}

func add[T any](object machineconfig.ReadObject, to *[]T) error {
	var value T
	if err := object.Load(&value); err != nil {
		return err
	}
	*to = append(*to, value)
	return nil
}

// addConfiguration adds the MachineConfiguration of the cluster, or that of a rendered
// file. Only the cluster sets a generation.
func (o *Objects) addConfiguration(object machineconfig.ReadObject) error {
	var c machineConfiguration
	if err := object.Load(&c); err != nil {
		return err
	}
	if object.Name != "cluster" {
		return config.Problem{
			Where: object.File, Message: fmt.Sprintf("the MachineConfiguration is %q, but the operator reads only \"cluster\"", object.Name),
			Remediation: `give the output of "oc get machineconfiguration cluster -o yaml"`,
		}
	}
	to, what := &o.rendered, "rendered policy"
	if c.Metadata.Generation > 0 || c.Status != nil {
		to, what = &o.live, "MachineConfiguration of a cluster"
	}
	if *to != nil {
		return config.Problem{Where: object.File, Message: "a second " + what, Remediation: "give one"}
	}
	*to = &c
	return nil
}

// addAPIServer adds the APIServer of the cluster.
func (o *Objects) addAPIServer(object machineconfig.ReadObject) error {
	const get = `give the output of "oc get apiserver cluster -o yaml"`
	switch {
	case object.Name != "cluster":
		return config.Problem{Where: object.File, Message: fmt.Sprintf("the APIServer is %q, but a cluster has only the APIServer \"cluster\"", object.Name), Remediation: get}
	case o.apiServer != nil:
		return config.Problem{Where: object.File, Message: "a second APIServer", Remediation: "give one"}
	}
	o.apiServer = new(apiServer)
	return object.Load(o.apiServer)
}

// apiServer is an APIServer of config.openshift.io/v1.
type apiServer struct {
	Spec struct {
		ServingCerts struct {
			NamedCertificates []servingcerts.NamedCertificate `yaml:"namedCertificates"`
		} `yaml:"servingCerts"`
	} `yaml:"spec"`
}

type metadata struct {
	Name       string            `yaml:"name"`
	Generation int64             `yaml:"generation"`
	Labels     map[string]string `yaml:"labels"`
}

// machineConfiguration is a MachineConfiguration of operator.openshift.io/v1.
type machineConfiguration struct {
	Metadata metadata `yaml:"metadata"`
	Spec     struct {
		Policy policyLists `yaml:"nodeDisruptionPolicy"`
	} `yaml:"spec"`
	Status *struct {
		ObservedGeneration int64 `yaml:"observedGeneration"`
		PolicyStatus       struct {
			Policies policyLists `yaml:"clusterPolicies"`
		} `yaml:"nodeDisruptionPolicyStatus"`
	} `yaml:"status"`
}

// policyLists are the lists of a node disruption policy, in the spec and in the status.
type policyLists struct {
	Files []struct {
		Path    string   `yaml:"path"`
		Actions []action `yaml:"actions"`
	} `yaml:"files"`
	Units []struct {
		Name    string   `yaml:"name"`
		Actions []action `yaml:"actions"`
	} `yaml:"units"`
}

type action struct {
	Type    string  `yaml:"type"`
	Restart service `yaml:"restart"`
	Reload  service `yaml:"reload"`
}

type service struct {
	Name string `yaml:"serviceName"`
}

func (l policyLists) policy() (p disruption.Policy) {
	for _, f := range l.Files {
		p.Files = append(p.Files, disruption.Entry{Key: f.Path, Actions: actions(f.Actions)})
	}
	for _, u := range l.Units {
		p.Units = append(p.Units, disruption.Entry{Key: u.Name, Actions: actions(u.Actions)})
	}
	return p
}

func actions(all []action) []disruption.Action {
	out := make([]disruption.Action, len(all))
	for i, a := range all {
		out[i] = disruption.Action{Type: a.Type}
		switch a.Type {
		case disruption.Restart:
			out[i].Service = a.Restart.Name
		case disruption.Reload:
			out[i].Service = a.Reload.Name
		}
	}
	return out
}

// pool is a MachineConfigPool.
type pool struct {
	Metadata metadata `yaml:"metadata"`
	Spec     struct {
		Paused bool `yaml:"paused"`
	} `yaml:"spec"`
	Status struct {
		Conditions []struct {
			Type    string `yaml:"type"`
			Status  string `yaml:"status"`
			Message string `yaml:"message"`
		} `yaml:"conditions"`
	} `yaml:"status"`
}

// layeredPool is a MachineOSConfig.
type layeredPool struct {
	Metadata metadata `yaml:"metadata"`
	Spec     struct {
		Pool struct {
			Name string `yaml:"name"`
		} `yaml:"machineConfigPool"`
	} `yaml:"spec"`
}

// machineConfig is a MachineConfig with the names of its files and units.
type machineConfig struct {
	Metadata metadata `yaml:"metadata"`
	Spec     struct {
		Config struct {
			Storage struct {
				Files []configFile `yaml:"files"`
			} `yaml:"storage"`
			Systemd struct {
				Units []struct {
					Name string `yaml:"name"`
				} `yaml:"units"`
			} `yaml:"systemd"`
		} `yaml:"config"`
	} `yaml:"spec"`
}

// configFile is a file in a MachineConfig.
type configFile struct {
	Path     string `yaml:"path"`
	Contents struct {
		Source      *string `yaml:"source"`
		Compression *string `yaml:"compression"`
	} `yaml:"contents"`
}

// configuration returns the configuration of the service in a MachineConfig. found is
// false without a configuration, or if hosts reject it.
func (m machineConfig) configuration() (c config.Config, found bool) {
	i := slices.IndexFunc(m.Spec.Config.Storage.Files, func(f configFile) bool { return f.Path == configurationPath })
	if i < 0 {
		return config.Config{}, false
	}
	contents := m.Spec.Config.Storage.Files[i].Contents
	text, ok := machineconfig.FileContents(contents.Source, contents.Compression, machineconfig.MaxObject)
	if !ok {
		return config.Config{}, false
	}
	c, err := config.Parse(configurationPath, text)
	return c, err == nil
}

func (m machineConfig) paths() (all []string) {
	for _, f := range m.Spec.Config.Storage.Files {
		all = append(all, f.Path)
	}
	return all
}

func (m machineConfig) units() (all []string) {
	for _, u := range m.Spec.Config.Systemd.Units {
		all = append(all, u.Name)
	}
	return all
}

// clusterVersion is the ClusterVersion, which has the release of the cluster.
type clusterVersion struct {
	Status struct {
		Desired struct {
			Version string `yaml:"version"`
		} `yaml:"desired"`
		History []struct {
			State   string `yaml:"state"`
			Version string `yaml:"version"`
		} `yaml:"history"`
	} `yaml:"status"`
}

// release returns the release that the cluster has completed last: during an upgrade,
// nodes may have the older one.
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
