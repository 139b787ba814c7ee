// SPDX-License-Identifier: Apache-2.0

// Package delivery tests the installation methods of docs/install. Their commands run as
// written on three booted control-plane hosts, from the first installation to the removal.
// test/rehearsal/openshift runs the procedures of MachineConfigs with OpenShift's own daemon. Here,
// test/support/mcd replays the daemon for other releases, OS images, and faults of the installer.
// TestFromLastRelease builds the release before this source from its tag.
package delivery
