// SPDX-License-Identifier: Apache-2.0

// Package microshift holds the lab tests of a MicroShift host: one node with a real
// router, an API server that selects its certificate by the code of the real one,
// the service, and what `http01-proxyd check` says of each fault.
package microshift
