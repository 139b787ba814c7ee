// SPDX-License-Identifier: Apache-2.0

// Package packaging tests the RPM: rpmbuild builds it, and rpm installs, upgrades, verifies
// and removes it on a host that boots. The bootc Containerfile puts it into an image whose
// host boots.
package packaging
