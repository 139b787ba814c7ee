// SPDX-License-Identifier: Apache-2.0

// The differences between releases whose daemon is not served.

package mcd

import "github.com/http01-proxyd/http01-proxyd/test/support/oracle"

// Flavour selects the behaviour of a range of OpenShift releases in their newest patch releases: no
// snapshot with these differences is served.
type Flavour int

// The flavours. Patch releases of 4.18 to 4.20 from before February 2026 behave like 4.17
// (OCPBUGS-58023).
const (
	OpenShift420 Flavour = iota // 4.20 and later
	OpenShift418                // 4.18 and 4.19
	OpenShift417
)

// Release returns the release whose operator renders configurations and merges policies for
// the daemon. That code is the same in 4.17 to 4.19.
func (f Flavour) Release() oracle.Release {
	if f == OpenShift420 {
		return oracle.OpenShift420
	}
	return oracle.OpenShift419
}

// writesAllUnits reports whether every update writes, disables and enables every unit, or
// only changed ones (pkg/daemon/update.go, updateFiles).
func (f Flavour) writesAllUnits() bool { return f == OpenShift417 }

// checksEnablement reports whether a manually enabled or disabled unit counts as drift
// (pkg/daemon/on_disk_validation.go, checkUnitEnabled).
func (f Flavour) checksEnablement() bool { return f != OpenShift417 }
