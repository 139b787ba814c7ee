// SPDX-License-Identifier: Apache-2.0

// Package findings owns the words for everything that is known to go wrong
// between a CA and cert-manager's solver: `http01-proxyd check`, the journal and
// docs/troubleshooting.md say the same thing in the same way.
package findings
