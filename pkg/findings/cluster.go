// SPDX-License-Identifier: Apache-2.0

package findings

// Findings that no check of one host detects.
const (
	NodeNotReporting ID = "node-not-reporting"
	VersionsDiffer   ID = "versions-differ"
	VIPsDiffer       ID = "vips-differ"
	VIPUnassigned    ID = "vip-unassigned"
	VIPDuplicate     ID = "vip-duplicate"
)

// {versions} and {vips} are values with the nodes that have them.
func clusterEntries() []Entry {
	const check = "cluster"
	return []Entry{
		{
			ID: NodeNotReporting, Check: check, ClusterOnly: true, Level: Problem,
			Symptom:     "The status of the cluster is unknown for a node.",
			Message:     "The command on {node} has not printed a report: {error}",
			Remediation: "Check the service on {node}: systemctl status http01-proxyd.",
		},
		{
			ID: VersionsDiffer, Check: check, ClusterOnly: true, Level: Warning,
			Symptom:     "The nodes have different versions of the service.",
			Message:     "The versions differ: {versions}",
			Remediation: "Complete the update of the hosts.",
		},
		{
			ID: VIPsDiffer, Check: check, ClusterOnly: true, Level: Warning,
			Symptom:     "The nodes have different API VIPs, so some may not answer challenges after a failover.",
			Message:     "The API VIPs differ: {vips}",
			Remediation: "Compare vips in the configuration, and keepalived.conf or kube-vip's static pods, of these hosts.",
		},
		{
			ID: VIPUnassigned, Check: check, ClusterOnly: true, Level: Problem,
			Symptom:     "Connections to the VIP end with `No route to host` or time out. The state of every host is `Standby`.",
			Message:     "No host holds the API VIP {vip}",
			Remediation: "Check keepalived, or kube-vip where BGP announces the VIPs, on the hosts that may hold the VIP (crictl logs of its pod; ip address). Its health check may fail, or no host is eligible.",
		},
		{
			ID: VIPDuplicate, Check: check, ClusterOnly: true, Level: Problem,
			Symptom: "Some connections to the VIP succeed and others fail. Two hosts are `Serving`. This happens when keepalived is killed on one of them.",
			Message: "{vip} is held by {holders}",
			Remediation: "Find the host without a running keepalived. Start keepalived there, or delete the address: ip -br address shows its LINK, ip address delete {vip} dev LINK deletes it. " +
				"If keepalived runs on both, VRRP packets are lost between them: check the switch and the hosts' firewalls.",
		},
	}
}
