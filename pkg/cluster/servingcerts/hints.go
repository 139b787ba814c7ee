// SPDX-License-Identifier: Apache-2.0

package servingcerts

import (
	"fmt"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/internal/docurl"
	"github.com/http01-proxyd/http01-proxyd/pkg/config"
)

// MaxNamedCertificates is the largest number of entries that kube-apiserver-operator
// accepts (pkg/operator/configobservation/apiserver/observe_apiserver.go,
// maxUserNamedCerts). The API server accepts more.
const MaxNamedCertificates = 10

// The fields that hints are about.
const (
	NamedCertificatesPath = "spec.servingCerts.namedCertificates"
	HostsPath             = "hosts"
)

// NamedCertificate is an entry of spec.servingCerts.namedCertificates.
type NamedCertificate struct {
	Names []string `json:"names" yaml:"names"`
}

// Hint is a setting that is accepted, but that harms the cluster or has no effect.
type Hint struct {
	Path, Message, Remediation string
}

// String is the hint in one line.
func (h Hint) String() string { return h.Path + ": " + h.Message + ": " + h.Remediation }

// NamedCertificateHints returns what kube-apiserver-operator rejects without an error for
// the client, and what makes the nodes lose the API.
func NamedCertificateHints(entries []NamedCertificate) (hints []Hint) {
	if len(entries) > MaxNamedCertificates {
		hints = append(hints, Hint{
			NamedCertificatesPath,
			fmt.Sprintf("%d entries, but kube-apiserver-operator accepts at most %d and keeps the previous certificates", len(entries), MaxNamedCertificates),
			"use one certificate for several names",
		})
	}
	for i, e := range entries {
		for j, name := range e.Names {
			if isInternal(name) {
				hints = append(hints, Hint{
					fmt.Sprintf("%s[%d].names[%d]", NamedCertificatesPath, i, j),
					fmt.Sprintf("%.253q is the name by which the nodes reach the API, and they trust only the cluster's own CA for it", name),
					"remove it (" + docurl.InternalName + ")",
				})
			}
		}
	}
	return hints
}

// HostHints returns the hosts of a configuration for which no public certificate may be
// requested.
func HostHints(c config.Config) (hints []Hint) {
	for _, name := range c.InternalHosts() {
		hints = append(hints, Hint{
			HostsPath,
			fmt.Sprintf("%q is the name by which the nodes reach the API, and they trust only the cluster's own CA for it", name),
			"remove it, and do not request a certificate for it (" + docurl.InternalName + ")",
		})
	}
	return hints
}

// isInternal reports whether a name in any form, as an administrator may write it, is that
// of the API for the nodes.
func isInternal(name string) bool {
	return config.IsInternalAPIName(strings.ToLower(strings.TrimSuffix(name, ".")))
}
