// SPDX-License-Identifier: Apache-2.0

// Package disruption owns the entries of this service in the cluster's node disruption
// policy: the actions that the machine-config-daemon runs instead of a reboot. Only the
// administrator's tool links it.
package disruption
