// SPDX-License-Identifier: Apache-2.0

package machineconfig

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
)

// bundleKey is the key of a ConfigMap with CAs. The ingress operator and the trustedCA
// of the cluster-wide proxy use it.
const bundleKey = "ca-bundle.crt"

// manifest is an object as "oc get -o yaml" prints it.
type manifest struct {
	APIVersion string            `yaml:"apiVersion"`
	Kind       string            `yaml:"kind"`
	Data       map[string]string `yaml:"data"`
	BinaryData map[string]string `yaml:"binaryData"`
	Spec       egressProxySpec   `yaml:"spec"`
	Status     egressProxySpec   `yaml:"status"`
}

// egressProxySpec holds the settings of a Proxy of config.openshift.io/v1. It may
// contain credentials.
type egressProxySpec struct {
	HTTP    string `yaml:"httpProxy"`
	HTTPS   string `yaml:"httpsProxy"`
	NoProxy string `yaml:"noProxy"`
}

func (p egressProxySpec) isEmpty() bool { return p.HTTP == "" && p.HTTPS == "" }

func (p egressProxySpec) hasCredentials() bool {
	return slices.ContainsFunc([]string{p.HTTP, p.HTTPS}, func(text string) bool {
		u, err := config.ParseProxyURL(text)
		return err == nil && u.User != nil
	})
}

func (p egressProxySpec) edits(name string) configEdits {
	one := func(key, value string) configEdit {
		return configEdit{keys: []string{"egressProxy", key}, value: value, source: name}
	}
	return configEdits{one("httpProxy", p.HTTP), one("httpsProxy", p.HTTPS), one("noProxy", p.NoProxy)}
}

// readManifest reads the one object of a file. Errors never quote the content.
func readManifest(in Input, apiVersion, kind string, examples ...string) (manifest, error) {
	remediation := fmt.Sprintf("give the output of \"%s\"", strings.Join(examples, `" or "`))
	r := clusterReader{limit: maxManifest}
	root := r.readDocument(in, remediation)
	if root == nil {
		return manifest{}, r.joinedProblems()
	}
	var m manifest
	if err := root.Load(&m); err != nil || m.APIVersion != apiVersion || m.Kind != kind {
		at := root
		if given := member(root, "kind"); given != nil && given.Value != kind {
			at = given
		}
		return manifest{}, problemAt(in.Name, at, fmt.Sprintf("not a %s of %s", kind, apiVersion), remediation)
	}
	return m, nil
}

// maxManifest is the limit of a ConfigMap or a Proxy: etcd accepts objects up to 1.5 MiB,
// and YAML adds indentation.
const maxManifest = 2 << 20

func findAlias(n *yaml.Node) *yaml.Node {
	if n.Anchor != "" || n.Kind == yaml.AliasNode || n.Tag == "!!merge" {
		return n
	}
	for _, child := range n.Content {
		if found := findAlias(child); found != nil {
			return found
		}
	}
	return nil
}

func bundleFromConfigMap(in Input) ([]byte, error) {
	m, err := readManifest(in, "v1", "ConfigMap", "oc get configmap NAME -n NAMESPACE -o yaml", "oc create configmap ingress-ca --from-file=ca-bundle.crt=FILE --dry-run=client -o yaml")
	if err != nil {
		return nil, err
	}
	text, is := m.Data[bundleKey]
	others := slices.DeleteFunc(slices.Sorted(maps.Keys(m.Data)), func(key string) bool { return key == bundleKey })
	others = append(others, slices.Sorted(maps.Keys(m.BinaryData))...)
	_, binary := m.BinaryData[bundleKey]
	switch {
	case binary:
		return nil, problem(in.Name, bundleKey+" is binary, probably a certificate in DER", "convert it and create the ConfigMap again: openssl x509 -inform der -in FILE -out ca-bundle.crt")
	case len(others) > 0:
		return nil, problem(in.Name, fmt.Sprintf("the ConfigMap has the additional key %.100q", others[0]), "keep only the key "+bundleKey+", with all CAs in PEM")
	case !is:
		return nil, problem(in.Name, "the ConfigMap has no data", "put the CAs in PEM under the key "+bundleKey)
	case strings.TrimSpace(text) == "":
		return nil, problem(in.Name, bundleKey+" is empty", "put the CAs in PEM under that key")
	}
	return []byte(text), nil
}

// readEgressProxy returns the proxy in the status, which the cluster has accepted. The
// proxy in the spec may not work.
func readEgressProxy(in Input) (egressProxySpec, error) {
	m, err := readManifest(in, "config.openshift.io/v1", "Proxy", "oc get proxy cluster -o yaml")
	if err != nil {
		return egressProxySpec{}, err
	}
	p := m.Status
	switch {
	case p.isEmpty() && !m.Spec.isEmpty():
		return egressProxySpec{}, problem(in.Name, "the cluster has not accepted the proxy of its spec: the status has none", `check "oc describe clusteroperator network", and export the Proxy again when its status has the proxy`)
	case p.isEmpty():
		return egressProxySpec{}, problem(in.Name, "the cluster has no egress proxy: the status has none", "leave --proxy out")
	}
	var problems []error
	for key, text := range map[string]string{"httpProxy": p.HTTP, "httpsProxy": p.HTTPS} {
		if _, err := config.ParseProxyURL(text); text != "" && err != nil {
			problems = append(problems, problem(in.Name, fmt.Sprintf("status.%s %v", key, err), "correct the cluster's Proxy; percent-encode special characters in user and password"))
		}
	}
	return p, errors.Join(problems...)
}
