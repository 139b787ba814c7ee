// SPDX-License-Identifier: Apache-2.0

// Package machineconfig owns the way from Butane sources to MachineConfigs:
// it judges what an admin asks for, renders it with the Butane library, and
// judges the result as the machine-config-operator will.
//
// Nothing is written and nothing is logged: callers get the text, or one error
// that holds every problem, each with its place and its mend.
package machineconfig
