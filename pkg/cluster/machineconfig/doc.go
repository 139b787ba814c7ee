// SPDX-License-Identifier: Apache-2.0

// Package machineconfig renders Butane sources and the administrator's settings to
// MachineConfigs. It validates the input as a host does. Only the administrator's tool links it.
//
// The package writes no log, and only a temporary directory for Butane. It returns the
// rendered files, or one error. The error has the first problem of each file of cluster objects,
// and all other problems, each with its position and its remediation.
package machineconfig
