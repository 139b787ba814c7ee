// SPDX-License-Identifier: Apache-2.0

// Package mcd simulates what OpenShift's machine-config-daemon does to a host when its
// rendered MachineConfig changes: the files and units that it writes, the order of its
// systemctl calls, the actions of a NodeDisruptionPolicy, the roll-back after a failed
// action, and its drift monitor. The operator's own code renders the configuration and merges the
// policy (test/support/oracle).
//
// It follows the branches release-4.17 to release-4.22 of the machine-config-operator.
// Comments cite the file and function of each rule relative to that repository. It supports
// only what the MachineConfigs of the tests contain: files, units and drop-ins.
package mcd
