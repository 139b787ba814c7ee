// SPDX-License-Identifier: Apache-2.0

package findings

import "github.com/http01-proxyd/http01-proxyd/internal/docurl"

// Findings about nftables and the service's ports.
const (
	NftablesUnsupported ID = "nftables-unsupported"
	NftablesRejected    ID = "nftables-rejected"
	PortInUse           ID = "port-in-use"
	MetricsPortInUse    ID = "metrics-port-in-use"
)

// {error} is the error of the kernel or the service.
func nftablesEntries() []Entry {
	return []Entry{
		{
			ID: NftablesUnsupported, Check: "nftables", Level: Problem,
			Symptom:     "The state is `NftablesUnavailable`.",
			Message:     "The kernel lacks a part of nftables that the service's table needs: {error}",
			Remediation: "Load the modules that the error lists, or boot a kernel that has it. RHEL CoreOS has all of them.",
		},
		{
			ID: NftablesRejected, Check: "nftables", Level: Problem,
			Symptom: "The state is `NftablesUnavailable`, although nftables works on the host.",
			Message: "The kernel accepts the service's table, but the service cannot create it: {error}",
			Remediation: "Start the service by its unit, which must have CAP_NET_ADMIN in AmbientCapabilities= and CapabilityBoundingSet=. " +
				"For another cause, fix what the error names. The service retries automatically.",
		},
	}
}

// {owner} is a process, a unit or a pod.
func portEntries() []Entry {
	const check = "port"
	return []Entry{
		{
			ID: PortInUse, Check: check, Level: Problem,
			Symptom: "The state is `PortInUse`.",
			Message: "Port {port} of the service is in use by {owner}",
			Remediation: "Stop that program, or set another port in /etc/http01-proxyd/config.yaml on every control-plane node " +
				"(mode: CustomDeployment, customDeployment: {internalPort: …}).",
		},
		{
			ID: MetricsPortInUse, Check: check, Level: Warning,
			Symptom:     "Prometheus finds no metrics, or those of another program. The journal has `metrics are not served`. Challenges are answered.",
			Message:     "Metrics are not served on {address}, because the port is in use by {owner}",
			Remediation: "Stop that program, or set another port in metrics.listenAddress of config.yaml and in the EndpointSlice and the ServiceMonitor.",
		},
	}
}

// Findings about the VIPs as configured on this host.
const (
	KeepalivedConfigMissing    ID = "keepalived-config-missing"
	KeepalivedConfigUnreadable ID = "keepalived-config-unreadable"
	KeepalivedNoAPIInstance    ID = "keepalived-no-api-instance"
	IngressVIPMissing          ID = "ingress-vip-missing"
	KubeVIPUnusable            ID = "kube-vip-unusable"
	VIPsUserManaged            ID = "vips-user-managed"
	VIPsShared                 ID = "vips-shared"
)

// {path} is keepalived.conf, {manifest} keepalived's static pod, {manifests} its directory.
func vipsEntries() []Entry {
	const (
		check    = "vips"
		explicit = " Alternatively, set vips.api and vips.ingress in /etc/http01-proxyd/config.yaml."
		symptom  = "The state is `NoVIPs`."
	)
	return []Entry{
		{
			ID: KeepalivedConfigMissing, Check: check, Level: Problem,
			Symptom:     symptom,
			Message:     "{path} does not exist, although keepalived's static pod does ({manifest})",
			Remediation: "Find out why that pod has not written the file (crictl ps -a --name keepalived, journalctl -u kubelet)." + explicit,
		},
		{
			ID: KeepalivedConfigUnreadable, Check: check, Level: Problem,
			Symptom: symptom + " Or it is `Serving` with `the last good VIPs stay in use`.",
			Message: "keepalived.conf cannot be used: {error}",
			Remediation: "Correct the file (keepalived -t -f {path} checks it) and make it world-readable (mode 0644). " +
				"If it is incomplete, find out why (a full disk? crictl logs of the keepalived pod)." + explicit,
		},
		{
			ID: KeepalivedNoAPIInstance, Check: check, Level: Problem,
			Symptom:     symptom,
			Message:     "{path} has no vrrp_instance named *_API_<n> with an address",
			Remediation: "Check that this is a control-plane node of a cluster whose API VIP keepalived manages." + explicit,
		},
		{
			ID: IngressVIPMissing, Check: check, Level: Problem,
			Symptom:     symptom,
			Message:     "{path} has the API VIP {vip} but no ingress VIP, and keepalived's static pod names none",
			Remediation: "Check that {manifest} has --api-vips and --ingress-vips." + explicit,
		},
		{
			ID: KubeVIPUnusable, Check: check, Level: Problem,
			Symptom:     symptom + " Or it is `Serving` with `the VIPs that are known stay in use`.",
			Message:     "{error}",
			Remediation: "Compare kube-vip's static pods in {manifests} with those of another control-plane node: each one has its VIP in the variable address." + explicit,
		},
		{
			ID: VIPsUserManaged, Check: check, Level: Problem,
			Symptom: "The state is `ExternalLoadBalancer`.",
			Message: "The VIPs are user-managed and never on a node: OpenShift has disabled keepalived ({manifest})",
			Remediation: "Configure that load balancer to forward port 80 of the API address to the ingress, as in " +
				docurl.ExternalBalancer + ". This service has no task here.",
		},
		{
			ID: VIPsShared, Check: check, Level: Warning,
			Symptom:     "The state is `NotRequired`.",
			Message:     "API and ingress share {vip}, so its port 80 belongs to the ingress and this service does nothing there",
			Remediation: "No action is necessary while a router responds there, because challenges for the API's name reach it directly. Otherwise use a separate address for the API.",
		},
	}
}

// Findings about packets to port 80 of the API VIPs, as the kernel's trace shows them.
const (
	PacketDropped       ID = "packet-dropped"
	PacketNotRedirected ID = "packet-not-redirected"
	PacketLost          ID = "packet-lost"
	ReplyDropped        ID = "reply-dropped"
	LocalTrafficBlocked ID = "local-traffic-blocked"
)

// {chain} is family, table and name of a chain, {rule} a rule of it or its policy,
// {vip} the API VIPs, {port} the port that the packets have in that chain, {sources} the
// hosts that sent them.
func rulesetEntries() []Entry {
	const (
		check  = "ruleset"
		source = "Change the ruleset at its source (a MachineConfig, /etc/sysconfig/nftables.conf, firewalld), because the next load or reboot reverts a change that was made by hand. " +
			"With oc commatrix, regenerate the rules with --host-open-ports after the installation, or with the custom entry ingress,TCP,{port},,http01-proxyd,,,master,false."
		until = " Until then, the command that check and trace print below this finding opens the port."
	)
	return []Entry{
		{
			ID: PacketDropped, Check: check, Level: Problem,
			Symptom:     "The state is `Serving`, but challenges time out or are refused, for all clients or for some clients.",
			Message:     "Packets from {sources} to {vip} are dropped at port {port} in chain {chain}: {rule}",
			Remediation: source + until,
		},
		{
			ID: PacketNotRedirected, Check: check, Level: Problem, CausedBy: []ID{VIPLinkDown, VIPDADFailed},
			Symptom:     "The state is `Serving`, but challenges are refused or get the response of another program. The counters of the table's chain `prerouting` stay at 0.",
			Message:     "Packets from {sources} to port 80 of {vip} are not redirected to the service, because of chain {chain}: {rule}",
			Remediation: "Exclude port 80 of {vip} from that rule, or run a nat chain at a priority above -110. An API VIP must not be in spec.externalIPs of a Service." + until,
		},
		{
			ID: PacketLost, Check: check, Level: Problem,
			Symptom:     "The state is `Serving`, but connections to the VIP time out, and no rule of nftables drops them.",
			Message:     "Packets from {sources} to {vip} are lost on this host: {how}",
			Remediation: "The kernel's counter shows the reason. Check the route back to the client (ip route get), rp_filter, net.netfilter.nf_conntrack_max, and legacy iptables rules (iptables-legacy -S).",
		},
		{
			ID: ReplyDropped, Check: check, Level: Problem,
			Symptom:     "The state is `Serving` and the counters of the table's chain `prerouting` grow, but clients time out.",
			Message:     "The service's replies from {vip} to {sources} are dropped at port {port} in chain {chain}: {rule}",
			Remediation: source + until,
		},
		{
			ID: LocalTrafficBlocked, Check: check, Level: Warning,
			Symptom: "Self checks of pods in the host's network fail on the host that holds the VIP, while the CA gets the key. " +
				"The message of the state ends with a note that requests of this host itself do not reach the service.",
			Message:     "Connections of this host itself to port 80 of {vip} do not reach the service, because of chain {chain}: {rule}",
			Remediation: "Where the ruleset is defined, add a rule that accepts packets on lo." + until,
		},
	}
}

// Findings about the cluster's egress proxy.
const (
	NoProxyLacksAPI  ID = "no-proxy-lacks-api"
	ProxyFileInvalid ID = "proxy-file-invalid"

	EgressNotReady  ID = "egress-not-ready"
	EgressCAInvalid ID = "egress-ca-invalid"
)

func clusterProxyEntries() []Entry {
	const check = "egress-proxy"
	return []Entry{
		{
			ID: NoProxyLacksAPI, Check: check, Level: Problem,
			Symptom:     "A challenge stays pending: cert-manager's self check gets an error page or no response, while curl from a host gets the key.",
			Message:     "cert-manager's self check of http://{name} leaves through the egress proxy {proxy}, because NO_PROXY in {path} does not cover the name",
			Remediation: "Add {name} or its domain to spec.noProxy of proxy/cluster. Processes that start afterwards use it, including cert-manager's pods.",
		},
		{
			ID: ProxyFileInvalid, Check: check, Level: Warning,
			Symptom:     "It is not known whether self checks leave through the egress proxy, or the condition `EgressProxyReady` is False with `InvalidProxy`.",
			Message:     "{path} cannot be used: {error}",
			Remediation: "Check proxy/cluster, from which the machine-config-operator writes the file.",
		},
		{
			ID: EgressNotReady, Check: check, Level: Problem,
			Symptom:     "The condition `EgressProxyReady` is False with `NotReady`.",
			Message:     "The egress proxy {proxy} from {source} is not accepted: {error}. {current}",
			Remediation: "Let the egress proxy forward requests to egressProxy.readinessEndpoints of config.yaml, or set other endpoints there. The service retries at least every minute.",
		},
		{
			ID: EgressCAInvalid, Check: check, Level: Problem,
			Symptom:     "The condition `EgressProxyReady` is False with `InvalidProxy`.",
			Message:     "The CA bundle of the egress proxy cannot be used: {error}",
			Remediation: "Check spec.trustedCA of proxy/cluster, from which the machine-config-operator writes {path}, or set egressProxy.trustedCA in /etc/http01-proxyd/config.yaml.",
		},
	}
}

// Findings about the configuration.
const (
	ConfigInvalid    ID = "config-invalid"
	ConfigUnreadable ID = "config-unreadable"
	Disabled         ID = "disabled"
	// HostsInternalName: challenges are answered for a name that must not get a public
	// certificate.
	HostsInternalName ID = "hosts-internal-name"
)

// {problem} begins with file, line and column.
func configEntries() []Entry {
	const (
		check   = "config"
		symptom = "The state is `InvalidConfig`, and a change of the configuration has no effect."
	)
	return []Entry{
		{
			ID: ConfigInvalid, Check: check, Level: Problem,
			Symptom:     symptom,
			Message:     "The configuration is invalid: {problem}",
			Remediation: "{fix} A corrected file is reloaded automatically.",
		},
		{
			ID: ConfigUnreadable, Check: check, Level: Problem,
			Symptom:     symptom,
			Message:     "{path} cannot be used: {error}",
			Remediation: "Make {path} a world-readable file (mode 0644). The service reloads it automatically.",
		},
		{
			ID: Disabled, Check: check, Level: Problem,
			Symptom:     "The state is `Disabled`.",
			Message:     `{path} has mode: "", which disables http01-proxyd`,
			Remediation: "Remove that line, or set mode: DefaultDeployment.",
		},
		{
			ID: HostsInternalName, Check: check, Level: Warning,
			Symptom:     "A Certificate for `api-int.<cluster>` is requested. If the API server presents it, the nodes are `NotReady`.",
			Message:     "hosts in {path} contains {name}, by which the nodes reach the API. They trust only the cluster's own CA for it",
			Remediation: "Remove {name} from hosts, and from dnsNames of the Certificate. Never use it in spec.servingCerts.namedCertificates of apiserver/cluster. See " + docurl.InternalName + ".",
		},
	}
}

// Findings about the service itself.
const (
	ServiceNotRunning       ID = "service-not-running"
	ServiceUnresponsive     ID = "service-unresponsive"
	ServiceReportUnreadable ID = "service-report-unreadable"
	ServiceNotReady         ID = "service-not-ready"
	SELinuxLabel            ID = "selinux-label"
	SELinuxUnit             ID = "selinux-unit"
)

// {state} is the state that systemd or the service reports.
func serviceEntries() []Entry {
	const check = "service"
	return []Entry{
		{
			ID: ServiceNotRunning, Check: check, Level: Problem, CausedBy: []ID{SELinuxLabel},
			Symptom:     "Connections to port 80 of the API VIP are refused. `systemctl status http01-proxyd` shows no status line.",
			Message:     "The service is not running: {state}",
			Remediation: "Run systemctl enable --now http01-proxyd. If it stops again, journalctl -u http01-proxyd shows why. A drop-in can take away a permission that the service needs.",
		},
		{
			ID: ServiceUnresponsive, Check: check, Level: Problem, CausedBy: []ID{SELinuxLabel},
			Symptom:     "`systemctl status http01-proxyd` reports that the service is active, but `http01-proxyd status` times out.",
			Message:     "The service runs but does not respond: {state}",
			Remediation: "Run systemctl restart http01-proxyd, which refuses no connection. systemd does the same automatically after 30 s (WatchdogSec=). If it hangs again, journalctl -u http01-proxyd shows its last action.",
		},
		{
			ID: ServiceReportUnreadable, Check: check, Level: Problem,
			Symptom: "`http01-proxyd status` ends with `the service is running, but its report cannot be read`.",
			Message: "The service runs, but its status report is not readable: {error}",
			Remediation: "See the journal entry of the failed report (journalctl -u http01-proxyd EVENT=status-report). " +
				"Run systemctl restart http01-proxyd, which refuses no connection and starts the installed version. Do not stop the process on the internal port, because it is the service.",
		},
		{
			ID: ServiceNotReady, Check: check, Level: Problem,
			Symptom: "The state is `ProxyUnavailable`, stays `Starting`, or is one that no other check explains.",
			Message: "The service runs but is not ready: {state}",
			Remediation: "See journalctl -u http01-proxyd for the reason, and ausearch -m avc -c http01-proxyd for what SELinux denies. " +
				"systemctl restart http01-proxyd refuses no connection.",
		},
		{
			ID: SELinuxLabel, Check: check, Level: Problem,
			Symptom:     "The service does not start (`203/EXEC`) or lacks a permission, and SELinux is enforcing.",
			Message:     "SELinux is enforcing, and {path} has the type {type}, from which systemd cannot start a service",
			Remediation: "Run restorecon -v {path}, which sets the type bin_t of its directory.",
		},
		{
			ID: SELinuxUnit, Check: check, Level: Warning,
			Symptom: "A node is degraded after the MachineConfig was deleted, because `http01-proxyd-install.service` was not found. Or a unit of http01-proxyd is not loaded.",
			Message: "SELinux is enforcing, and systemd may not read a unit of http01-proxyd: {detail}",
			Remediation: "Run restorecon -v on that file. If it is below /usr/local/lib, then run chcon --reference=/usr/lib/systemd/system on it. Then run systemctl daemon-reload. " +
				"The installer does this when it writes the file, and at each boot: systemctl status http01-proxyd-install shows whether it runs.",
		},
	}
}

// localServingFaults are the findings on this host that keep the proxy from responding
// on port 80 of the API VIPs that it holds. Any observation there follows from them.
func localServingFaults() []ID {
	return []ID{
		NftablesUnsupported, NftablesRejected, PortInUse, IngressVIPMissing, KubeVIPUnusable, PacketDropped,
		PacketNotRedirected, PacketLost,
		ReplyDropped, LocalTrafficBlocked, Disabled, ServiceNotRunning, ServiceUnresponsive, ServiceNotReady,
		SELinuxLabel,
	}
}
