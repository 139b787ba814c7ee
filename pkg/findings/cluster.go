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

// {versions} and {vips} are values with the nodes that use them. The commands are for a workstation.
func clusterEntries() []Entry {
	const (
		check   = "cluster"
		onNode  = "oc debug node/{node} -- chroot /host "
		manager = onNode + `sh -c 'crictl ps -a --name "keepalived|kube-vip"; ip -br address'`
	)
	return []Entry{
		{
			ID: NodeNotReporting, Check: check, ClusterOnly: true, Level: Warning,
			Symptom:     "The status of the cluster is unknown for a node.",
			Message:     "The command on {node} printed no report: {error}",
			Remediation: "Check the service on {node}.",
			Commands:    []string{"oc get node {node}", onNode + "systemctl status http01-proxyd --no-pager"},
		},
		{
			ID: VersionsDiffer, Check: check, ClusterOnly: true, Level: Warning,
			Symptom:     "The nodes run different versions of the service.",
			Message:     "The versions differ: {versions}",
			Remediation: "Complete the update of the hosts.",
			Commands:    []string{"oc get mcp", onNode + "journalctl -u http01-proxyd-install -n 20 --no-pager"},
		},
		{
			ID: VIPsDiffer, Check: check, ClusterOnly: true, Level: Warning,
			Symptom:     "The nodes know different API VIPs, so some may not answer challenges after a failover.",
			Message:     "The API VIPs differ: {vips}",
			Remediation: "Compare vips in the configuration of these hosts, and keepalived.conf or kube-vip's static pods.",
			Commands:    []string{onNode + "grep -s -A3 -e virtual_ipaddress -e ^vips: /etc/keepalived/keepalived.conf /etc/http01-proxyd/config.yaml"},
		},
		{
			ID: VIPUnassigned, Check: check, ClusterOnly: true, Level: Problem,
			Symptom: "Connections to the VIP end with `No route to host` or time out. The state of every host is `Standby`.",
			Message: "No host holds the API VIP {vip}",
			Remediation: "Check keepalived, or kube-vip with BGP, on the hosts that may hold the VIP. Its health " +
				"check may fail, or no host is eligible.",
			Commands: []string{manager},
		},
		{
			ID: VIPDuplicate, Check: check, ClusterOnly: true, Level: Problem,
			Symptom:     "Some connections to the VIP succeed and others fail. Two hosts are `Serving`.",
			Message:     "{vip} is held by {holders}",
			Remediation: twoHolders + "The commands delete it where keepalived does not run. Otherwise, VRRP packets are lost: permit IP protocol 112 at the switch and in the hosts' firewalls.",
			Commands: []string{
				onNode + "sh -c 'ip -br address show to {vip}; crictl ps --name keepalived'",
				onNode + "sh -c '" + deleteLeftVIP + "'",
			},
		},
	}
}
