// SPDX-License-Identifier: Apache-2.0

package findings

// Findings that no check of one host detects.
const (
	NodeNotReporting ID = "node-not-reporting"
	VersionsDiffer   ID = "versions-differ"
	VIPsDiffer       ID = "vips-differ"
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
	}
}
