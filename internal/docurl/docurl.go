// SPDX-License-Identifier: Apache-2.0

// Package docurl owns where the documents are to be read. What is printed on a
// host, or told by an alert, reaches somebody who has no checkout: it gives one of
// these addresses, and no path.
package docurl

// The documents, at URLs that everybody can open.
const (
	prefix = "https://github.com/http01-proxyd/http01-proxyd/blob/main/"

	Readme             = prefix + "README.md"
	Troubleshooting    = prefix + "docs/troubleshooting.md"
	CertificateExpired = prefix + "docs/support.md#the-api-certificate-has-expired"
)
