// SPDX-License-Identifier: Apache-2.0

package findings

// What goes wrong with nftables and the internal port.
const (
	NftablesUnsupported      ID = "nftables-missing"
	NftablesPermissionDenied ID = "nftables-denied"
	NftablesRejected         ID = "nftables-refused"
	PortInUse                ID = "port-taken"

	MetricsPortInUse ID = "metrics-port-taken"
)

// {error} is what the kernel or the service said.
func nftablesEntries() []Entry {
	return []Entry{
		{
			ID: NftablesUnsupported, Check: "nftables", Level: Problem,
			Symptom:     "The state is `NftablesUnavailable`.",
			Message:     "the kernel lacks a part of nftables that the service's table is made of: {error}",
			Remediation: "load the module that it names, or boot a kernel that has it; RHEL CoreOS has all of it",
		},
		{
			ID: NftablesPermissionDenied, Check: "nftables", Level: Problem,
			Symptom:     "The state is `NftablesUnavailable`, although nftables works on the host.",
			Message:     "the kernel takes the service's table, but the service may not put it there: {error}",
			Remediation: "start it by its unit, which has AmbientCapabilities=CAP_NET_ADMIN, and with that capability in CapabilityBoundingSet=",
		},
		{
			ID: NftablesRejected, Check: "nftables", Level: Problem,
			Symptom:     "The state is `NftablesUnavailable`, although nftables works on the host.",
			Message:     "the kernel takes the service's table, but the service could not put it there: {error}",
			Remediation: "do what it says; the service tries again by itself",
		},
	}
}

// {holder} is a process, a unit or a pod.
func portEntries() []Entry {
	const check = "port"
	return []Entry{
		{
			ID: PortInUse, Check: check, Level: Problem,
			Symptom: "The state is `PortInUse`.",
			Message: "port {port}, on which the service is to listen, is taken by {holder}",
			Remediation: "stop that one, or give the service another port in /etc/http01-proxyd/config.yaml on every master: " +
				"mode: CustomDeployment, customDeployment: {internalPort: …}",
		},
		{
			ID: MetricsPortInUse, Check: check, Level: Warning,
			Symptom:     "Prometheus finds no metrics, or those of something else; the journal says `metrics are not served`. Challenges are answered.",
			Message:     "the metrics are not served on {address}: the port is taken by {holder}",
			Remediation: "stop that one, or give another port in metrics.listenAddress of config.yaml, and in the EndpointSlice and ServiceMonitor",
		},
	}
}

// What goes wrong with the VIPs as this host knows them.
const (
	KeepalivedConfigMissing    ID = "keepalived-absent"
	KeepalivedConfigIncomplete ID = "keepalived-half-written"
	KeepalivedConfigUnreadable ID = "keepalived-unreadable"
	KeepalivedNoAPIInstance    ID = "keepalived-without-api"
	IngressVIPMissing          ID = "vips-without-ingress"
	VIPsUserManaged            ID = "vips-user-managed"
	VIPsShared                 ID = "vips-shared"
)

// {path} is keepalived.conf, {manifest} keepalived's static pod.
func vipsEntries() []Entry {
	const (
		check   = "vips"
		byHand  = "or name the VIPs as vips.api and vips.ingress in /etc/http01-proxyd/config.yaml"
		symptom = "The state is `NoVIPs`."
	)
	return []Entry{
		{
			ID: KeepalivedConfigMissing, Check: check, Level: Problem,
			Symptom:     "The state is `NoVIPs`.",
			Message:     "there is no {path}, although keepalived's static pod is here ({manifest})",
			Remediation: "see why that pod has not written the file (crictl ps -a --name keepalived, journalctl -u kubelet), " + byHand,
		},
		{
			ID: KeepalivedConfigIncomplete, Check: check, Level: Problem,
			Symptom:     symptom + " Or it is `Serving` with `the last good VIPs stay in force`.",
			Message:     "the VIPs cannot be read: {error}",
			Remediation: "see why whoever writes it has stopped (a full disk? crictl logs of the keepalived pod); the service takes it up once it is whole, " + byHand,
		},
		{
			ID: KeepalivedConfigUnreadable, Check: check, Level: Problem,
			Symptom:     symptom,
			Message:     "keepalived.conf cannot be taken: {error}",
			Remediation: "correct it (keepalived -t -f {path} checks it) and let all read it (mode 0644), " + byHand,
		},
		{
			ID: KeepalivedNoAPIInstance, Check: check, Level: Problem,
			Symptom:     symptom,
			Message:     "{path} has no vrrp_instance named *_API_<n> with an address",
			Remediation: "see that this is a master of a cluster whose API VIP keepalived keeps, " + byHand,
		},
		{
			ID: IngressVIPMissing, Check: check, Level: Problem,
			Symptom:     symptom,
			Message:     "{path} gives API VIP {vip} but no ingress VIP, and keepalived's static pod names none",
			Remediation: "see that {manifest} has --ingress-vips, " + byHand,
		},
		{
			ID: VIPsUserManaged, Check: check, Level: Problem,
			Symptom:     "The state is `ExternalLoadBalancer`.",
			Message:     "the VIPs are user-managed, and never on a node: {manifest} is where OpenShift has put keepalived aside",
			Remediation: "lead port 80 of the API address to the ingress on that load balancer; this service has nothing to do here",
		},
		{
			ID: VIPsShared, Check: check, Level: Warning,
			Symptom:     "The state is `NotRequired`.",
			Message:     "API and ingress share {vip}: its port 80 is the ingress's, and this service does nothing there",
			Remediation: "nothing, as long as a router answers there: challenges for the API's name reach it by themselves; else give the API an address of its own",
		},
	}
}

// What keeps packets from the service.
const (
	EarlierNAT              ID = "nat-before-us"
	EarlierNATForSome       ID = "nat-before-us-for-some"
	VIPPortUntracked        ID = "vip-port-untracked"
	VIPPortUntrackedForSome ID = "vip-port-untracked-for-some"
	VIPPortDropped          ID = "vip-port-dropped"
	InputDrops              ID = "input-drops"
	InputDropsForSome       ID = "input-drops-some"
	LocalTrafficBlocked     ID = "own-clients-kept-away"
)

// {chain} is family, table and name of a chain, {rule} a rule of it or its policy,
// {vip} the API VIPs, {port} the service's.
func rulesetEntries() []Entry {
	const (
		check   = "ruleset"
		leave   = "let it leave port 80 of {vip} alone, or run at a priority above -110; a Service's spec.externalIPs must not have an API VIP"
		tracked = "let it leave tcp dport 80 of {vip} tracked, where the ruleset comes from"
		open    = "open port {port} there as well: tcp dport {port} accept, or for all that is redirected ct status dnat accept, " +
			"before that rule, where the ruleset comes from (a MachineConfig, /etc/sysconfig/nftables.conf)"
	)
	return []Entry{
		{
			ID: EarlierNAT, Check: check, Level: Problem,
			Symptom:     "The state is `Serving`, and challenges get the answer of something else, or none; the counters of the table's chain `prerouting` stay at 0.",
			Message:     "connections to port 80 of {vip} are led elsewhere before the service's table sees them, by chain {chain}: {rule}",
			Remediation: leave,
		},
		{
			ID: EarlierNATForSome, Check: check, Level: Warning,
			Symptom:     "The state is `Serving`, and some clients get the answer of something else, or none.",
			Message:     "connections of some clients to port 80 of {vip} are led elsewhere before the service's table sees them, by chain {chain}: {rule}",
			Remediation: leave,
		},
		{
			ID: VIPPortUntracked, Check: check, Level: Problem,
			Symptom:     "The state is `Serving`, and challenges are refused; the counters of the table's chain `prerouting` stay at 0.",
			Message:     "connections to port 80 of {vip} are taken from connection tracking, without which nothing is redirected, in chain {chain}: {rule}",
			Remediation: tracked,
		},
		{
			ID: VIPPortUntrackedForSome, Check: check, Level: Warning,
			Symptom:     "The state is `Serving`, and challenges are refused for some clients.",
			Message:     "connections of some clients to port 80 of {vip} are taken from connection tracking, without which nothing is redirected, in chain {chain}: {rule}",
			Remediation: tracked,
		},
		{
			ID: VIPPortDropped, Check: check, Level: Problem,
			Symptom:     "The state is `Serving`, and challenges time out or are refused; the counters of the table's chain `prerouting` stay at 0.",
			Message:     "connections to port 80 of {vip} end before the service's table sees them, in chain {chain}: {rule}",
			Remediation: "let it accept tcp dport 80 for {vip}, where the ruleset comes from",
		},
		{
			ID: InputDrops, Check: check, Level: Problem,
			Symptom:     "The state is `Serving`, the counters of the table's chain `prerouting` grow, and challenges time out or are refused.",
			Message:     "connections to {vip} that are redirected to port {port} end in chain {chain}: {rule}",
			Remediation: open,
		},
		{
			ID: InputDropsForSome, Check: check, Level: Warning,
			Symptom:     "The state is `Serving`, and challenges time out for some clients.",
			Message:     "connections of some clients to {vip} that are redirected to port {port} end in chain {chain}: {rule}",
			Remediation: open,
		},
		{
			ID: LocalTrafficBlocked, Check: check, Level: Warning,
			Symptom:     "Self checks of pods in the host's network fail on the master that holds the VIP, while the CA gets the key. The message of the state ends with a note that requests of this host itself do not reach the service.",
			Message:     "connections of this host itself to port 80 of {vip} do not reach the service, because of chain {chain}: {rule}",
			Remediation: "let it pass what goes out by lo, and tcp dport {port}, where the ruleset comes from",
		},
	}
}

// What goes wrong with the cluster's egress proxy.
const (
	NoProxyLacksAPI  ID = "egress-proxy-takes-api"
	ProxyFileInvalid ID = "egress-proxy-unreadable"

	EgressNotReady             ID = "egress-not-ready"
	EgressCAInvalid            ID = "egress-ca-refused"
	EgressNoReadinessEndpoints ID = "egress-without-readiness"
)

func clusterProxyEntries() []Entry {
	const check = "egress-proxy"
	return []Entry{
		{
			ID: NoProxyLacksAPI, Check: check, Level: Problem,
			Symptom:     "A challenge stays pending: cert-manager's self check gets an error page, or none, while curl from a host gets the key.",
			Message:     "cert-manager's self check of http://{name} would leave through the egress proxy {proxy}: NO_PROXY in {path} does not cover the name",
			Remediation: "add {name} or its domain to spec.noProxy of proxy/cluster; what is started afterwards has it, cert-manager's pods too",
		},
		{
			ID: ProxyFileInvalid, Check: check, Level: Warning,
			Symptom:     "It is not known whether self checks leave through the egress proxy, or the condition `EgressProxyReady` is False with `InvalidProxy`.",
			Message:     "{path} cannot be taken: {error}",
			Remediation: "see proxy/cluster, from which the machine-config-operator writes it",
		},
		{
			ID: EgressNotReady, Check: check, Level: Problem,
			Symptom:     "The condition `EgressProxyReady` is False with `NotReady`.",
			Message:     "the egress proxy {proxy}, of {source}, is not accepted, for {error}; {stays}",
			Remediation: "let the proxy pass what egressProxy.readinessEndpoints of config.yaml name, or name others there; the service asks them again at the latest every minute",
		},
		{
			ID: EgressCAInvalid, Check: check, Level: Problem,
			Symptom:     "The condition `EgressProxyReady` is False with `InvalidProxy`.",
			Message:     "the CAs by which the egress proxy is verified cannot be taken: {error}",
			Remediation: "see spec.trustedCA of proxy/cluster, from which the machine-config-operator writes {path}, or set egressProxy.trustedCA in /etc/http01-proxyd/config.yaml",
		},
		{
			ID: EgressNoReadinessEndpoints, Check: check, Level: Warning,
			Symptom:     "A change of the egress proxy breaks challenges at once, although what was there before would still work.",
			Message:     "a changed egress proxy counts without having been tried: egressProxy.readinessEndpoints is empty",
			Remediation: "name in egressProxy.readinessEndpoints of config.yaml a URL or two that answer through the proxy, such as spec.readinessEndpoints of proxy/cluster",
		},
	}
}

// What goes wrong with the table of connections.
const (
	ConntrackFull  ID = "conntrack-full"
	ConntrackDrops ID = "conntrack-drops"
)

func conntrackEntries() []Entry {
	const check = "conntrack"
	return []Entry{
		{
			ID: ConntrackDrops, Check: check, Level: Problem,
			Symptom:     "Connections to this host time out now and then; the kernel's log has `nf_conntrack: table full, dropping packet`.",
			Message:     "the kernel drops packets because its table of connections cannot take more: {dropped} within {time}, with {count} of {max} entries in use",
			Remediation: "raise net.netfilter.nf_conntrack_max, and look what makes so many connections (conntrack -L, ss -s)",
		},
		{
			ID: ConntrackFull, Check: check, Level: Warning,
			Symptom:     "Soon connections to this host time out now and then.",
			Message:     "the kernel's table of connections is nearly full: {count} of {max} entries are in use; when none is free, new connections are dropped",
			Remediation: "raise net.netfilter.nf_conntrack_max, and look what makes so many connections (conntrack -L, ss -s)",
		},
	}
}

// What goes wrong with the configuration.
const (
	ConfigInvalid    ID = "config-refused"
	ConfigUnreadable ID = "config-unreadable"
	Disabled         ID = "disabled"
)

// {problem} begins with file, line and column.
func configEntries() []Entry {
	const check = "config"
	return []Entry{
		{
			ID: ConfigInvalid, Check: check, Level: Problem,
			Symptom:     "The state is `InvalidConfig`; a change of the configuration has no effect.",
			Message:     "the configuration is refused: {problem}",
			Remediation: "{mend}; the service takes the file up by itself",
		},
		{
			ID: ConfigUnreadable, Check: check, Level: Problem,
			Symptom:     "The state is `InvalidConfig`; a change of the configuration has no effect.",
			Message:     "the configuration cannot be read: {error}",
			Remediation: "let {path} be a file that all may read (mode 0644); the service takes it up by itself",
		},
		{
			ID: Disabled, Check: check, Level: Problem,
			Symptom:     "The state is `Disabled`.",
			Message:     `{path} has mode: "", which switches the front door off`,
			Remediation: "remove that line, or set mode: DefaultDeployment",
		},
	}
}

// What goes wrong with the service itself.
const (
	ServiceNotRunning       ID = "service-down"
	ServiceUnresponsive     ID = "service-hangs"
	ServiceReportUnreadable ID = "service-report-unreadable"
	ServiceNotReady         ID = "service-unwell"
	SandboxDenies           ID = "sandbox-denies"
	SELinuxLabel            ID = "selinux-label"
	SELinuxDenies           ID = "selinux-denies"
)

// {state} is what systemd or the service says of itself.
func serviceEntries() []Entry {
	const check = "service"
	return []Entry{
		{
			ID: ServiceNotRunning, Check: check, Level: Problem, CausedBy: []ID{SandboxDenies, SELinuxLabel, SELinuxDenies},
			Symptom:     "Connections to port 80 of the API VIP are refused; `systemctl status http01-proxyd` shows no sentence.",
			Message:     "the service does not run: {state}",
			Remediation: "systemctl enable --now http01-proxyd; if it does not stay, journalctl -u http01-proxyd says why",
		},
		{
			ID: ServiceUnresponsive, Check: check, Level: Problem, CausedBy: []ID{SandboxDenies, SELinuxLabel, SELinuxDenies},
			Symptom:     "`systemctl status http01-proxyd` says that it is active, and `http01-proxyd status` ends with a timeout.",
			Message:     "the service runs and does not answer: {state}",
			Remediation: "systemctl restart http01-proxyd refuses no connection, and systemd does it by itself after 30 s (WatchdogSec=); if it hangs again, journalctl -u http01-proxyd says what it did last",
		},
		{
			ID: ServiceReportUnreadable, Check: check, Level: Problem,
			Symptom:     "`http01-proxyd status` ends with `the service is running, but its report cannot be read`.",
			Message:     "the service runs, and does not say how it is: {error}",
			Remediation: "see the line of the journal with EVENT=status-report (journalctl -u http01-proxyd EVENT=status-report); systemctl restart http01-proxyd refuses no connection, and takes the installed version, which may be newer than the running one; leave the process on the internal port alone, which is the service",
		},
		{
			ID: ServiceNotReady, Check: check, Level: Problem,
			Symptom:     "The state is `ProxyUnavailable`, stays `Starting`, or is one that no other check has a cause for.",
			Message:     "the service runs and is not ready: {state}",
			Remediation: "journalctl -u http01-proxyd says why; systemctl restart http01-proxyd refuses no connection",
		},
		{
			ID: SandboxDenies, Check: check, Level: Problem,
			Symptom:     "The service fails, or its state is `NftablesUnavailable`, since its unit was changed.",
			Message:     "the unit's sandbox denies the service what it needs: {what}",
			Remediation: "remove that setting from the drop-in ({dropins}), systemctl daemon-reload, systemctl restart http01-proxyd",
		},
		{
			ID: SELinuxLabel, Check: check, Level: Problem,
			Symptom:     "The service does not start (`203/EXEC`), or is denied what it needs, and SELinux enforces.",
			Message:     "SELinux enforces, and {path} has the type {type}, which systemd may not start a service from",
			Remediation: "restorecon -v {path}: it gets bin_t by its place",
		},
		{
			ID: SELinuxDenies, Check: check, Level: Problem,
			Symptom:     "The service fails, or is denied what it needs, and SELinux enforces.",
			Message:     "SELinux has denied the service something: {denial}",
			Remediation: "restorecon -Rv the file that it names; if the types are right, ausearch -m avc -c http01-proxyd | audit2allow shows the rule that is missing",
		},
	}
}

// LocalServingFaults are the causes on this host for which nothing answers on port 80 of the
// API VIPs that it holds: what is seen there from anywhere follows from them.
func LocalServingFaults() []ID {
	return []ID{
		NftablesUnsupported, NftablesPermissionDenied, NftablesRejected, PortInUse, IngressVIPMissing, EarlierNAT, VIPPortUntracked, VIPPortDropped, InputDrops, LocalTrafficBlocked,
		Disabled, ServiceNotRunning, ServiceUnresponsive, ServiceNotReady, SandboxDenies, SELinuxLabel, SELinuxDenies,
	}
}
