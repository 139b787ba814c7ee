// SPDX-License-Identifier: Apache-2.0

// Package selfcheck evaluates the responses at port 80 of the API VIPs, as cert-manager's
// self check on this host gets them. `http01-proxyd check` links it.
package selfcheck
