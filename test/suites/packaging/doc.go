// SPDX-License-Identifier: Apache-2.0

// Package packaging owns the proof that the RPM works: rpmbuild makes it, rpm
// installs, upgrades, verifies and removes it on a host that boots, and the bootc
// Containerfile puts it into an image whose host then boots.
package packaging
