// SPDX-License-Identifier: Apache-2.0

package machineconfig

import (
	"fmt"
	"strings"
)

// bundleKey is the key of a ConfigMap with CAs. The ingress operator and the trustedCA
// of the cluster-wide proxy use it.
const bundleKey = "ca-bundle.crt"

// configMap has the fields of a ConfigMap that are read.
type configMap struct {
	Data map[string]string `json:"data"`
}

// egressProxy has the fields of a Proxy of config.openshift.io/v1 that are read.
type egressProxy struct {
	Status egressProxySpec `json:"status"`
}

// egressProxySpec holds the settings of a Proxy. It may contain credentials.
type egressProxySpec struct {
	HTTP    string `json:"httpProxy"`
	HTTPS   string `json:"httpsProxy"`
	NoProxy string `json:"noProxy"`
}

func (p egressProxySpec) hasCredentials() bool { return strings.Contains(p.HTTP+p.HTTPS, "@") }

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
	text := m.Data[bundleKey]
	if strings.TrimSpace(text) == "" {
		return nil, problem(in.Name, "the ConfigMap has no CAs in the key "+bundleKey,
			"put the CAs in PEM under that key: openssl x509 -inform der -in FILE converts a certificate in DER")
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
	if p := m.Status; p.HTTP != "" || p.HTTPS != "" {
		return p, nil
	}
	return egressProxySpec{}, problem(in.Name, "the status has no egress proxy",
		`leave --proxy out; if the spec has one, the cluster has not accepted it: see "oc describe clusteroperator network"`)
}
