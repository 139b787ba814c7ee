// SPDX-License-Identifier: Apache-2.0

// Package cluster contains the packages for the cluster as a whole: MachineConfigs, the
// node disruption policy, the condition of the cluster and the certificates of its API. Only the administrator's
// tool links them.
package cluster
