// SPDX-License-Identifier: Apache-2.0

package machineconfig

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/servingcerts"
)

// APIServerKind returns the APIServer with its known fields.
func APIServerKind() ObjectKind {
	return ObjectKind{APIVersion: configGroup, Kind: kindAPIServer, Fields: knownFields(kindAPIServer)}
}

// knownFields lists the fields that the platform's CRDs have in any feature set, by the
// path of their parent. It covers the objects that are read: a misspelt field there
// would be ignored silently. test/suites/apis compares it with the
// CRDs.
func knownFields(kind string) map[string][]string {
	switch kind {
	case kindHTTP01Proxy:
		return map[string][]string{
			"":                      {"apiVersion", "kind", "metadata", "spec", "status"},
			"spec":                  {"mode", "customDeployment"},
			"spec.customDeployment": {"internalPort"},
			"status":                {"conditions", "proxyImage"},
		}
	case kindAPIServer:
		return map[string][]string{
			"": {"apiVersion", "kind", "metadata", "spec", "status"},
			"spec": {
				"additionalCORSAllowedOrigins", "audit", "clientCA", "encryption", "servingCerts", "tlsAdherence", "tlsSecurityProfile",
				challengeProxyName,
			},
			"spec.servingCerts":                       {"namedCertificates"},
			servingcerts.NamedCertificatesPath + "[]": {"names", "servingCertificate"},
			"status":            {},
			challengeProxyField: {"mode", "customDeployment"},
			challengeProxyField + ".customDeployment": {"internalPort"},
		}
	}
	all := map[string][]string{
		"": {"apiVersion", "kind", "metadata", "spec", "status"},
		"status": {
			"apiServerInternalURI", "apiServerURL", "controlPlaneTopology", "cpuPartitioning", "etcdDiscoveryDomain",
			"infrastructureName", "infrastructureTopology", "platform", "platformStatus",
		},
		platformPath: {
			"type", "alibabaCloud", "aws", "azure", "baremetal", "equinixMetal", "external", "gcp", "ibmcloud", "kubevirt",
			"nutanix", "openstack", "ovirt", "powervs", "vsphere",
		},
	}
	for key, own := range map[string][]string{
		"baremetal": {"machineNetworks", "nodeDNSIP", "vipManagement"},
		"openstack": {"cloudName", "machineNetworks", "nodeDNSIP"},
		"vsphere":   {"machineNetworks", "nodeDNSIP"},
		"nutanix":   {},
		"ovirt":     {"nodeDNSIP"},
	} {
		all[platformPath+"."+key] = append(own, "apiServerInternalIP", "apiServerInternalIPs", "dnsRecordsType", "ingressIP", "ingressIPs", "loadBalancer")
		all[platformPath+"."+key+".loadBalancer"] = []string{"type"}
	}
	return all
}

func (r *clusterReader) checkFields(o clusterObject) {
	walkFields(o.node, knownFields(o.kind), func(key *yaml.Node, at, path string, known []string) {
		r.recordUnknownField(o.file, key, at, suggestField(o.kind, path, key.Value, known))
	})
}

// walkFields reports each field that is not in the list of its parent. The path of the
// elements of a list ends with "[]".
func walkFields(root *yaml.Node, fields map[string][]string, report func(key *yaml.Node, at, parent string, known []string)) {
	var walk func(n *yaml.Node, path string)
	walk = func(n *yaml.Node, path string) {
		if n.Kind == yaml.SequenceNode {
			for _, element := range n.Content {
				walk(element, path+"[]")
			}
			return
		}
		known, checked := fields[path]
		if !checked || n.Kind != yaml.MappingNode {
			return
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			key, at := n.Content[i], strings.TrimPrefix(path+"."+n.Content[i].Value, ".")
			if slices.Contains(known, key.Value) {
				walk(n.Content[i+1], at)
				continue
			}
			report(key, at, path, known)
		}
	}
	walk(root, "")
}

func suggestField(kind, path, key string, known []string) string {
	form := map[string]proxyForm{kindAPIServer: apiServerForm(), kindHTTP01Proxy: http01ProxyForm()}[kind]
	if form.path != "" {
		parents := map[string]string{"mode": form.path, "customDeployment": form.path, "internalPort": form.path + ".customDeployment"}
		if kind == kindAPIServer {
			parents[challengeProxyName] = "spec"
		}
		if parent := parents[key]; parent != "" && parent != path {
			return "move it to " + parent
		}
	}
	index := slices.IndexFunc(known, func(k string) bool { return strings.EqualFold(key, k) })
	if index < 0 {
		index = slices.IndexFunc(known, func(k string) bool { return isMisspelling(key, k) })
	}
	if index < 0 {
		return ""
	}
	return fmt.Sprintf("did you mean %s?", known[index])
}

// isMisspelling reports whether one name may be a misspelling of the other: apart from
// case, they differ in few characters for their length.
func isMisspelling(a, b string) bool {
	const most = 64 // longer than any field
	if len(a) > most {
		return false
	}
	a, b = strings.ToLower(a), strings.ToLower(b)
	// Levenshtein distance, one row at a time.
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, diagonal+1, row[j]+1)
		}
	}
	return row[len(b)] <= max(1, len(b)/5)
}
