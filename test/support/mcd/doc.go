// SPDX-License-Identifier: Apache-2.0

// Package mcd owns what OpenShift's machine-config-daemon does to a host when
// its rendered MachineConfig changes: which files and units it writes, in which
// order it calls systemctl, which actions a NodeDisruptionPolicy leads to, what
// is rolled back when one of them fails, and what its drift monitor objects to.
//
// It is written from the behaviour of the machine-config-operator's branches
// release-4.17 to release-4.22; the file and function that each rule comes from
// stand beside it, relative to that repository. What has nothing to do with
// files and units is left out: OS updates, extensions, SSH keys, drains and
// certificates that the daemon treats specially.
package mcd
