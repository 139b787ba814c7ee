// SPDX-License-Identifier: Apache-2.0

// Package clock tests that steps of the wall clock change nothing for a running service. No
// namespace changes CLOCK_REALTIME (time_namespaces(7)), so the service runs in a QEMU machine.
package clock
