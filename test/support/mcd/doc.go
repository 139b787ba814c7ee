// SPDX-License-Identifier: Apache-2.0

// Package mcd replays what OpenShift's machine-config-daemon does to a host when its rendered
// configuration changes. The daemon itself runs in test/rehearsal/openshift, with its controller and an
// API server. That cannot show:
//
//   - the daemons of 4.17 and 4.18, and the patch releases since February 2026, which write only units
//     that changed: no snapshot of them is served,
//   - a change of osImageURL or of kernel arguments: these need CoreOS,
//   - the many faults of the installer: an update takes half a minute there, and a second here.
//
// It follows the branches release-4.17 to release-4.22 of the machine-config-operator. Comments cite
// the file and function of each rule relative to that repository. It supports only what the tests
// apply: files in plain text, units and drop-ins. It leaves out what the daemon itself shows: the check
// for drift before an update, the rollback after a failed action, and drains.
package mcd
