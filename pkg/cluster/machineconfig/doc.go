// SPDX-License-Identifier: Apache-2.0

// Package machineconfig renders Butane sources and the administrator's settings to
// MachineConfigs. It validates the input as a host does. Only the administrator's tool links it.
//
// The package writes no file and no log. It returns the rendered files, or one error
// with every problem, its position and its remediation.
package machineconfig
