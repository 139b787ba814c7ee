// SPDX-License-Identifier: Apache-2.0

package machineconfig

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
)

// bundleKey is the key of a ConfigMap with CAs. The ingress operator and the trustedCA
// of the cluster-wide proxy use it.
const bundleKey = "ca-bundle.crt"

// configMap has the fields of a ConfigMap that are read.
type configMap struct {
	Data       map[string]string `json:"data"`
	BinaryData map[string]string `json:"binaryData"`
}

// egressProxy has the fields of a Proxy of config.openshift.io/v1 that are read.
type egressProxy struct {
	Spec   egressProxySpec `json:"spec"`
	Status egressProxySpec `json:"status"`
}

// egressProxySpec holds the settings of a Proxy. It may contain credentials.
type egressProxySpec struct {
	HTTP    string `json:"httpProxy"`
	HTTPS   string `json:"httpsProxy"`
	NoProxy string `json:"noProxy"`
}

func (p egressProxySpec) isEmpty() bool { return p.HTTP == "" && p.HTTPS == "" }

func (p egressProxySpec) hasCredentials() bool {
	return slices.ContainsFunc([]string{p.HTTP, p.HTTPS}, func(text string) bool {
		u, err := config.ParseProxyURL(text)
		return err == nil && u.User != nil
	})
}

func (p egressProxySpec) settings(from string) (all []setting) {
	for _, one := range []struct{ key, value string }{
		{"httpProxy", p.HTTP}, {"httpsProxy", p.HTTPS}, {"noProxy", p.NoProxy},
	} {
		if one.value != "" {
			all = append(all, setting{[]string{"egressProxy", one.key}, one.value, from})
		}
	}
	return all
}

// readManifest reads the one object of a file. Errors never quote the content.
func readManifest(in Input, apiVersion, kind string, into any, examples ...string) error {
	remediation := fmt.Sprintf("give the output of \"%s\"", strings.Join(examples, `" or "`))
	read, err := ReadObjects([]Input{in}, map[string]string{kind: apiVersion}, remediation)
	switch {
	case err != nil:
		return err
	case len(read.Objects) != 1:
		return problem(in.Name, fmt.Sprintf("contains %d objects", len(read.Objects)), remediation)
	}
	return read.Objects[0].Load(into)
}

func bundleFromConfigMap(in Input) ([]byte, error) {
	var m configMap
	err := readManifest(in, "v1", "ConfigMap", &m, "oc get configmap NAME -n NAMESPACE -o yaml",
		"oc create configmap ingress-ca --from-file=ca-bundle.crt=FILE --dry-run=client -o yaml")
	if err != nil {
		return nil, err
	}
	text, is := m.Data[bundleKey]
	others := slices.DeleteFunc(slices.Sorted(maps.Keys(m.Data)), func(key string) bool { return key == bundleKey })
	others = append(others, slices.Sorted(maps.Keys(m.BinaryData))...)
	_, binary := m.BinaryData[bundleKey]
	switch {
	case binary:
		return nil, problem(in.Name, bundleKey+" is binary, probably a certificate in DER",
			"convert it and create the ConfigMap again: openssl x509 -inform der -in FILE -out ca-bundle.crt")
	case len(others) > 0:
		return nil, problem(in.Name, fmt.Sprintf("the ConfigMap has the additional key %.100q", others[0]),
			"keep only the key "+bundleKey+", with all CAs in PEM")
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
	var m egressProxy
	err := readManifest(in, configGroup, "Proxy", &m, "oc get proxy cluster -o yaml")
	if err != nil {
		return egressProxySpec{}, err
	}
	p := m.Status
	switch {
	case p.isEmpty() && !m.Spec.isEmpty():
		return egressProxySpec{}, problem(in.Name, "the cluster has not accepted the proxy of its spec: the status has none",
			`check "oc describe clusteroperator network", and export the Proxy again when its status has the proxy`)
	case p.isEmpty():
		return egressProxySpec{}, problem(in.Name, "the cluster has no egress proxy: the status has none",
			"leave --proxy out")
	}
	var problems []error
	for key, text := range map[string]string{"httpProxy": p.HTTP, "httpsProxy": p.HTTPS} {
		if _, err := config.ParseProxyURL(text); text != "" && err != nil {
			problems = append(problems,
				problem(in.Name, fmt.Sprintf("status.%s %v", key, err),
					"correct the cluster's Proxy; percent-encode special characters in user and password"))
		}
	}
	return p, errors.Join(problems...)
}
