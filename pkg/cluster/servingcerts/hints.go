// SPDX-License-Identifier: Apache-2.0

package servingcerts

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
)

// MaxNamedCertificates is the largest number of entries that kube-apiserver-operator
// accepts (pkg/operator/configobservation/apiserver/observe_apiserver.go,
// maxUserNamedCerts). The API server accepts more.
const MaxNamedCertificates = 10

// NamedCertificatesPath is the field of the APIServer that hints are about.
const NamedCertificatesPath = "spec.servingCerts.namedCertificates"

// NamedCertificate is an entry of spec.servingCerts.namedCertificates.
type NamedCertificate struct {
	Names []string `json:"names"`
}

// NamedCertificateHints returns findings about entries that the API server accepts: those
// that kube-apiserver-operator rejects without an error for the client, and those that
// make the nodes lose the API.
func NamedCertificateHints(entries []NamedCertificate) (hints []findings.Finding) {
	if len(entries) > MaxNamedCertificates {
		hints = append(hints, findings.New(findings.NamedCertificatesTooMany, findings.Values{
			"count": strconv.Itoa(len(entries)), "limit": strconv.Itoa(MaxNamedCertificates),
		}))
	}
	for i, e := range entries {
		for j, name := range e.Names {
			if isInternal(name) {
				hints = append(hints, findings.New(findings.NamedCertificateInternalName, findings.Values{
					"field": fmt.Sprintf("%s[%d].names[%d]", NamedCertificatesPath, i, j), "name": name,
				}))
			}
		}
	}
	return hints
}

// HostHints returns findings about the hosts of a configuration for which no public
// certificate may be requested. path is the place of the configuration.
func HostHints(path string, c config.Config) (hints []findings.Finding) {
	for _, name := range c.InternalHosts() {
		hints = append(hints, findings.New(findings.HostsInternalName, findings.Values{"path": path, "name": name}))
	}
	return hints
}

// isInternal reports whether a name in any form, as an administrator may write it, is that
// of the API for the nodes.
func isInternal(name string) bool {
	return config.IsInternalAPIName(strings.ToLower(strings.TrimSuffix(name, ".")))
}
