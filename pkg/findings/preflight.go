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

// {entries} and {shared} are paths and units, {config} is the name of a MachineConfig or of a
// MachineOSConfig, {field} is the path of a field, {stream} a stream of OS images, {policy} the folder of
// the rendered policy.
func preflightEntries() []Entry {
	const (
		apply = "sh {policy}/apply.sh"
		owner = "oc get machineconfiguration cluster -o yaml --show-managed-fields"
	)
	return []Entry{
		{
			ID: PolicyEntriesMissing, Check: PreflightCheck, ClusterOnly: true, Level: Problem,
			Symptom:     "A change of the MachineConfigs drains and reboots all control-plane nodes.",
			Message:     "The node disruption policy contains no entry for {entries}. A merge patch or \"oc replace\" of another tool removes entries",
			Remediation: "Run 10-policy/apply.sh of the rendered files before you apply or delete MachineConfigs.",
			Commands:    []string{apply},
		},
		{
			ID: PolicyNotObserved, Check: PreflightCheck, ClusterOnly: true, Level: Problem,
			Symptom:     "A change of the MachineConfigs reboots the control-plane nodes, although the policy was applied.",
			Message:     "The machine-config-operator has not observed the newest node disruption policy: {state}",
			Remediation: "Run 10-policy/apply.sh of the rendered files, which waits. If it fails, check the operator.",
			Commands:    []string{apply, "oc get clusteroperator machine-config"},
		},
		{
			ID: PolicyEntriesReboot, Check: PreflightCheck, ClusterOnly: true, Level: Problem,
			Symptom:     "A change of the MachineConfigs drains or reboots the control-plane nodes, although the policy was applied.",
			Message:     "The node disruption policy sets the action Reboot or Drain for {entries}",
			Remediation: "Ask the owner of the entry to remove it. The managed fields name the owner.",
			Commands:    []string{owner},
		},
		{
			ID: PolicyEntriesDiffer, Check: PreflightCheck, ClusterOnly: true, Level: Warning,
			Symptom:     "An upgrade starts only with the next attempt of the installer or the next boot.",
			Message:     "The node disruption policy contains actions of another owner for {entries}",
			Remediation: "Agree on the actions with the owner of the entry, then run 10-policy/apply.sh of the rendered files.",
			Commands:    []string{owner, apply},
		},
		{
			ID: PolicyDropsEntries, Check: PreflightCheck, ClusterOnly: true, Level: Problem,
			Symptom:     "A downgrade drains and reboots all control-plane nodes, although the policy was applied.",
			Message:     "The rendered policy contains no entry for {entries}, but a MachineConfig of this service contains them. Applied first, the policy removes their entries",
			Remediation: "Apply the rendered MachineConfigs first, and keep the active policy meanwhile. Wait until the pool is updated, then run 10-policy/apply.sh. The command does all of it.",
			Commands: []string{
				"oc apply -f {policy}/.. && oc wait mcp/{pool} --for=condition=Updating --timeout=5m && " +
					"oc wait mcp/{pool} --for=condition=Updated --timeout=60m && " + apply,
			},
		},
		{
			ID: PolicyTooManyEntries, Check: PreflightCheck, ClusterOnly: true, Level: Problem,
			Symptom:     "`apply.sh` fails: the node disruption policy must have at most 50 items.",
			Message:     "With our entries, {field} of the node disruption policy would contain {count} entries, but the API server accepts at most {limit}",
			Remediation: "Ask the owners of other entries to remove some. An entry for a folder applies to all files in it.",
			Commands:    []string{owner},
		},
		{
			ID: PoolPaused, Check: PreflightCheck, ClusterOnly: true, Level: Problem,
			Symptom:     "Applied MachineConfigs do not arrive on the nodes.",
			Message:     "The pool {pool} is paused: changes arrive together with all others when you resume it, and one that needs a reboot reboots the nodes",
			Remediation: "Agree with the owner of the pause, then resume the pool.",
			Commands:    []string{"oc get mcp {pool}", "oc patch mcp {pool} --type=merge --patch='{\"spec\":{\"paused\":false}}'"},
		},
		{
			ID: PoolDegraded, Check: PreflightCheck, ClusterOnly: true, Level: Problem,
			Symptom:     "Applied MachineConfigs arrive on some nodes only, or on none.",
			Message:     "The pool {pool} is degraded: {reason}",
			Remediation: "Correct the degraded node first. The description of the pool names it.",
			Commands:    []string{"oc describe mcp {pool}"},
		},
		{
			ID: PoolLayered, Check: PreflightCheck, ClusterOnly: true, Level: Problem,
			Symptom:     "Every change of the MachineConfigs builds an image and reboots the nodes.",
			Message:     "The pool {pool} uses the MachineOSConfig {config}: {release} drains and reboots the nodes for every change, whatever the policy says",
			Remediation: "Plan the reboots, or upgrade to OpenShift 4.20 first: then changes of files and units follow the policy.",
			Commands:    []string{"oc get machineosconfig {config} -o yaml", "oc get clusterversion version"},
		},
		{
			ID: OSImageWithStream, Check: PreflightCheck, ClusterOnly: true, Level: Problem,
			Symptom:     "The pool is `RenderDegraded`: `cannot override MachineConfig osImageURL and set MachineConfigPool spec.osImageStream.name simultaneously`.",
			Message:     "The MachineConfig {config} sets osImageURL, and the pool {pool} sets osImageStream to {stream}. From OpenShift 4.22 on, no change of MachineConfigs arrives on its nodes then",
			Remediation: "Keep one of them. To keep the image, build it on the image of that stream, and remove the stream from the pool. The nodes reboot only if their image changes.",
			Commands: []string{
				"oc get mc {config} -o yaml",
				"oc patch mcp {pool} --type=merge --patch='{\"spec\":{\"osImageStream\":null}}'",
			},
		},
		{
			ID: MachineConfigOverlaps, Check: PreflightCheck, ClusterOnly: true, Level: Problem,
			Symptom:     "A changed configuration or unit has no effect on the nodes.",
			Message:     "The MachineConfig {config} also contains {shared}: {precedence}",
			Remediation: "Remove these files and units from {config}. This reboots the nodes unless the policy covers it.",
			Commands:    []string{"oc get mc {config} -o yaml"},
		},
		{
			ID: MachineConfigCompressed, Check: PreflightCheck, ClusterOnly: true, Level: Problem,
			Symptom:     "Nodes become degraded: the machine-config-daemon reports an invalid gzip header.",
			Message:     "{shared} is compressed in {compressed} and plain text in {plain}: {release} renders contents that no node can read",
			Remediation: "Remove these files from {config}. OpenShift 4.20 merges them correctly.",
			Commands:    []string{"oc get mc {config} -o yaml"},
		},
		{
			ID: MachineConfigNameTaken, Check: PreflightCheck, ClusterOnly: true, Level: Problem,
			Symptom:     "`apply.sh` fails: MachineConfigs with our names contain something that is not ours.",
			Message:     "The MachineConfig {config} has one of our names, but contains {shared}, which is not ours. If you apply or delete our MachineConfigs, the nodes reboot and may lose this",
			Remediation: "Ask the owner to move it to a MachineConfig with another name.",
			Commands:    []string{"oc get mc {config} -o yaml --show-managed-fields"},
		},
		{
			ID: DNATMachineConfig, Check: PreflightCheck, ClusterOnly: true, Level: Problem,
			Symptom:     "All of port 80 of the API VIP reaches the ingress, and challenges are not in the journal.",
			Message:     "The MachineConfig {config} of cert-manager-operator's HTTP01Proxy redirects all of port 80 to the ingress. This service replaces it",
			Remediation: "Delete the object HTTP01Proxy, so that the operator removes the MachineConfig. The removal reboots the nodes.",
			Commands:    []string{"oc get http01proxies.operator.openshift.io -A", "oc get mc {config} -o yaml"},
		},
		{
			ID: NamedCertificatesTooMany, Check: PreflightCheck, ClusterOnly: true, Level: Warning,
			Symptom:     "The API servers do not present a certificate that was added to namedCertificates, and no client gets an error.",
			Message:     "spec.servingCerts.namedCertificates contains {count} entries, but kube-apiserver-operator accepts at most {limit} and keeps the previous certificates",
			Remediation: "Use one certificate for several names. See " + docurl.TenCertificates + ".",
			Commands:    []string{showNamed},
		},
		{
			ID: NamedCertificateInternalName, Check: PreflightCheck, ClusterOnly: true, Level: Warning,
			Symptom:     "Nodes are `NotReady` and the cluster is degraded after a certificate was added to namedCertificates.",
			Message:     "{field} is {name}, by which the nodes reach the API. They trust only the cluster's own CA for it",
			Remediation: "Remove {name} from names, and from dnsNames of the Certificate. See " + docurl.InternalName + ".",
			Commands:    []string{showNamed},
		},
	}
}
