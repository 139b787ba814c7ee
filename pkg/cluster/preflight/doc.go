// SPDX-License-Identifier: Apache-2.0

// Package preflight decides whether a change of the MachineConfigs drains or reboots the
// nodes of a pool: from the objects of the cluster and the rendered files. It reads no
// file: the same objects give the same report. Only the administrator's tool links it.
package preflight
