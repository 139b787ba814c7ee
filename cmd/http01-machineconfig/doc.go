// SPDX-License-Identifier: Apache-2.0

// Command http01-machineconfig is the administrator's tool of http01-proxyd. It renders
// the MachineConfigs that install the service, prints the entries of the cluster's node
// disruption policy, and combines the reports of the hosts into one condition. It does
// not connect to a cluster.
package main
