// SPDX-License-Identifier: Apache-2.0

// Package notifier notifies systemd of the state of the service: readiness, reloads, the end, and the
// status line. The controller links it.
package notifier
