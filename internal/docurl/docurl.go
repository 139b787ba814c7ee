// SPDX-License-Identifier: Apache-2.0

package docurl

// The documents, at URLs that everybody can open.
const (
	prefix = "https://github.com/http01-proxyd/http01-proxyd/blob/main/"

	States             = prefix + "docs/reference/status.md#states"
	Troubleshooting    = prefix + "docs/troubleshooting.md"
	Findings           = prefix + "docs/troubleshooting/" // a page for each check
	CertificateExpired = prefix + "docs/runbooks/certificate-expired.md"
	BeforeTheSwitch    = prefix + "docs/before-the-switch.md"
	InternalName       = BeforeTheSwitch + "#never-use-api-int"
	TenCertificates    = BeforeTheSwitch + "#at-most-ten-named-certificates"
	ExternalBalancer   = prefix + "docs/external-load-balancer.md"
	FromHTTP01Proxy    = prefix + "docs/migration.md#from-cert-manager-operators-http01proxy"
)
