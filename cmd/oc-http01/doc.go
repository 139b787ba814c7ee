// SPDX-License-Identifier: Apache-2.0

// Command oc-http01 is the administrator's tool of http01-proxyd, a plugin of oc. It
// renders the MachineConfigs that install the service and the entries of the cluster's
// node disruption policy, and combines the reports of the nodes.
package main
