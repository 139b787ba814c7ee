// SPDX-License-Identifier: Apache-2.0

package findings

import "github.com/http01-proxyd/http01-proxyd/internal/docurl"

// Findings of "oc http01 preflight", before a change of the MachineConfigs.
const (
	PolicyEntriesMissing  ID = "policy-entries-missing"
	PolicyNotObserved     ID = "policy-not-observed"
	PolicyEntriesReboot   ID = "policy-entries-reboot"
	PolicyEntriesDiffer   ID = "policy-entries-differ"
	PolicyDropsEntries    ID = "policy-drops-entries"
	PoolPaused            ID = "pool-paused"
	PoolDegraded          ID = "pool-degraded"
	PoolLayered           ID = "pool-layered"
	MachineConfigOverlaps ID = "machineconfig-overlaps"
	DNATMachineConfig     ID = "dnat-machineconfig-present"
	// NamedCertificatesTooMany and NamedCertificateInternalName are about the APIServer.
	// The renderer prints them too.
	NamedCertificatesTooMany     ID = "named-certificates-too-many"
	NamedCertificateInternalName ID = "named-certificate-internal-name"
)

// PreflightCheck is the check of these entries.
const PreflightCheck = "preflight"

// {entries} are paths and units, {config} is the name of a MachineConfig or of a
// MachineOSConfig, {field} is the path of a field.
func preflightEntries() []Entry {
	return []Entry{
		{
			ID: PolicyEntriesMissing, Check: PreflightCheck, ClusterOnly: true, Level: Problem,
			Symptom:     "A change of the MachineConfigs drains and reboots all control-plane nodes.",
			Message:     "The node disruption policy has no entry for {entries}. A merge patch or \"oc replace\" by another tool removes entries",
			Remediation: "Run \"sh 10-policy/apply.sh\" in the folder of the rendered files before you apply or delete MachineConfigs.",
		},
		{
			ID: PolicyNotObserved, Check: PreflightCheck, ClusterOnly: true, Level: Problem,
			Symptom:     "A change of the MachineConfigs reboots the control-plane nodes, although the policy was applied.",
			Message:     "The machine-config-operator has not observed the newest node disruption policy: {state}",
			Remediation: "Run \"sh 10-policy/apply.sh\" in the folder of the rendered files, which waits. If it fails, see \"oc get clusteroperator machine-config\".",
		},
		{
			ID: PolicyEntriesReboot, Check: PreflightCheck, ClusterOnly: true, Level: Problem,
			Symptom:     "A change of the MachineConfigs drains or reboots the control-plane nodes, although the policy was applied.",
			Message:     "The node disruption policy has the action Reboot or Drain for {entries}",
			Remediation: "Agree with the owner of the entry to remove it. \"oc get machineconfiguration cluster -o yaml --show-managed-fields\" shows the owner.",
		},
		{
			ID: PolicyEntriesDiffer, Check: PreflightCheck, ClusterOnly: true, Level: Warning,
			Symptom:     "An upgrade starts only with the next attempt of the installer or the next boot.",
			Message:     "The node disruption policy has actions of another owner for {entries}",
			Remediation: "Agree on the actions with the owner of the entry, then run \"sh 10-policy/apply.sh\" in the folder of the rendered files.",
		},
		{
			ID: PolicyDropsEntries, Check: PreflightCheck, ClusterOnly: true, Level: Problem,
			Symptom:     "A downgrade drains and reboots all control-plane nodes, although the policy was applied.",
			Message:     "The rendered policy has no entry for {entries}, but a MachineConfig of this service contains them. To apply it first removes their entries",
			Remediation: "Apply the rendered MachineConfigs first, with the policy that is in force. Wait until the pool is updated, then run \"sh 10-policy/apply.sh\".",
		},
		{
			ID: PoolPaused, Check: PreflightCheck, ClusterOnly: true, Level: Problem,
			Symptom:     "Applied MachineConfigs do not arrive on the nodes.",
			Message:     "The pool {pool} is paused: changes arrive together with all others when it is resumed, and one that needs a reboot reboots the nodes",
			Remediation: "Resume the pool first: oc patch mcp/{pool} --type=merge --patch='{\"spec\":{\"paused\":false}}'.",
		},
		{
			ID: PoolDegraded, Check: PreflightCheck, ClusterOnly: true, Level: Problem,
			Symptom:     "Applied MachineConfigs arrive on some nodes only, or on none.",
			Message:     "The pool {pool} is degraded: {reason}",
			Remediation: "Correct the degraded node first. \"oc describe mcp {pool}\" names it.",
		},
		{
			ID: PoolLayered, Check: PreflightCheck, ClusterOnly: true, Level: Problem,
			Symptom:     "Every change of the MachineConfigs builds an image and reboots the nodes.",
			Message:     "The pool {pool} has the MachineOSConfig {config}: {release} drains and reboots the nodes for every change, whatever the policy",
			Remediation: "Plan the reboots, or upgrade to OpenShift 4.20 first. From 4.20, changes of files and units follow the policy.",
		},
		{
			ID: MachineConfigOverlaps, Check: PreflightCheck, ClusterOnly: true, Level: Problem,
			Symptom:     "A changed configuration or unit has no effect on the nodes.",
			Message:     "The MachineConfig {config} also contains {shared}: the MachineConfig whose name is last in the alphabet takes precedence",
			Remediation: "Remove these files and units from {config}. A change of it without an entry in the policy reboots the nodes.",
		},
		{
			ID: DNATMachineConfig, Check: PreflightCheck, ClusterOnly: true, Level: Problem,
			Symptom:     "All of port 80 of the API VIP reaches the ingress, and challenges are not in the journal.",
			Message:     "The MachineConfig {config} of cert-manager-operator's HTTP01Proxy redirects all of port 80 to the ingress. This service replaces it",
			Remediation: "Delete the object HTTP01Proxy, so that the operator removes the MachineConfig. The removal reboots the nodes.",
		},
		{
			ID: NamedCertificatesTooMany, Check: PreflightCheck, ClusterOnly: true, Level: Warning,
			Symptom:     "The API servers do not present a certificate that was added to namedCertificates, and no client gets an error.",
			Message:     "spec.servingCerts.namedCertificates has {count} entries, but kube-apiserver-operator accepts at most {limit} and keeps the previous certificates",
			Remediation: "Use one certificate for several names. See " + docurl.TenCertificates + ".",
		},
		{
			ID: NamedCertificateInternalName, Check: PreflightCheck, ClusterOnly: true, Level: Warning,
			Symptom:     "Nodes are `NotReady` and the cluster is degraded after a certificate was added to namedCertificates.",
			Message:     "{field} is {name}, by which the nodes reach the API. They trust only the cluster's own CA for it",
			Remediation: "Remove {name} from names, and from dnsNames of the Certificate. See " + docurl.InternalName + ".",
		},
	}
}
