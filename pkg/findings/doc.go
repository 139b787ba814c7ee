// SPDX-License-Identifier: Apache-2.0

// Package findings contains the text of every known fault between a CA and
// cert-manager's solver: ID, message and remediation. `http01-proxyd check`, the
// journal and docs/troubleshooting.md use the same texts. All processes link it.
package findings
