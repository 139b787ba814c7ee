// SPDX-License-Identifier: Apache-2.0

package mcd

// Flavour is the behaviour of a range of OpenShift releases, as their newest
// patch releases have it.
type Flavour int

// The flavours. Patch releases of 4.18 to 4.20 from before February 2026 behave
// as 4.17 does (OCPBUGS-58023).
const (
	OpenShift420 Flavour = iota // 4.20 and later
	OpenShift418                // 4.18 and 4.19
	OpenShift417
)

// String names the releases.
func (f Flavour) String() string {
	switch f {
	case OpenShift417:
		return "4.17"
	case OpenShift418:
		return "4.18"
	default:
		return "4.20"
	}
}

// writesAllUnits tells whether every unit is written, disabled and enabled on
// every update, or those that changed alone (pkg/controller/update.go,
// updateFiles).
func (f Flavour) writesAllUnits() bool { return f == OpenShift417 }

// skipsUnitsWithoutFile tells whether a unit without contents of its own is
// enabled or disabled only if the host has it (pkg/controller/update.go,
// writeUnits; OCPBUGS-56648).
func (f Flavour) skipsUnitsWithoutFile() bool { return f == OpenShift420 }

// checksEnablement tells whether a unit that somebody enabled or disabled
// counts as drift (pkg/controller/on_disk_validation.go, checkUnitEnabled).
func (f Flavour) checksEnablement() bool { return f != OpenShift417 }
