// SPDX-License-Identifier: Apache-2.0

// Package cluster contains the packages for the cluster as a whole: MachineConfigs and their layouts, the
// node disruption policy, preflight, and what the nodes report together. Only the administrator's tool links
// them.
package cluster
