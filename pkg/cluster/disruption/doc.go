// SPDX-License-Identifier: Apache-2.0

// Package disruption owns our entries in the cluster's NodeDisruptionPolicy:
// what the machine-config-daemon does on a host instead of rebooting it, and
// how these entries get into an object that others write to as well, and out
// of it again.
package disruption
