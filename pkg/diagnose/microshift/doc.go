// SPDX-License-Identifier: Apache-2.0

// Package microshift determines the addresses and names of MicroShift on this host like
// the service does, and evaluates them. `http01-proxyd check` links it.
package microshift
