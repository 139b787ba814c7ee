// SPDX-License-Identifier: Apache-2.0

// Package decision decides what the service does on a MicroShift host: pure functions of
// MicroShift's configuration and the host's addresses. The controller and check link it.
package decision
