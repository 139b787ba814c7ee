// SPDX-License-Identifier: Apache-2.0

// Package microshift contains the lab tests of a MicroShift host: one node with a real router, the
// service, and an API server that selects its certificate with the code of the real one.
// `http01-proxyd check` must report each fault.
package microshift
