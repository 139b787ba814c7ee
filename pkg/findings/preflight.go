// SPDX-License-Identifier: Apache-2.0

package findings

// Findings of "oc http01 preflight", before a change of the MachineConfigs.
const (
	PolicyEntriesMissing  ID = "policy-entries-missing"
	PolicyNotObserved     ID = "policy-not-observed"
	PolicyEntriesReboot   ID = "policy-entries-reboot"
	PolicyEntriesDiffer   ID = "policy-entries-differ"
	PolicyDropsEntries    ID = "policy-drops-entries"
	PolicyTooManyEntries  ID = "policy-too-many-entries"
	PoolPaused            ID = "pool-paused"
	PoolDegraded          ID = "pool-degraded"
	PoolLayered           ID = "pool-layered"
	OSImageWithStream     ID = "os-image-with-stream"
	MachineConfigOverlaps ID = "machineconfig-overlaps"
	// MachineConfigCompressed is about the same files as MachineConfigOverlaps.
	MachineConfigCompressed ID = "machineconfig-compressed"
	MachineConfigNameTaken  ID = "machineconfig-name-taken"
	DNATMachineConfig       ID = "dnat-machineconfig-present"
	// NamedCertificatesTooMany and NamedCertificateInternalName are about the APIServer.
	// The renderer prints them too.
	NamedCertificatesTooMany     ID = "named-certificates-too-many"
	NamedCertificateInternalName ID = "named-certificate-internal-name"
)

// PreflightCheck is the check of these entries.
const PreflightCheck = "preflight"
