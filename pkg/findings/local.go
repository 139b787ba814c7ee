// SPDX-License-Identifier: Apache-2.0

package findings

import "github.com/http01-proxyd/http01-proxyd/internal/docurl"

// Findings about nftables and the service's ports.
const (
	NftablesUnsupported ID = "nftables-unsupported"
	NftablesRejected    ID = "nftables-rejected"
	DNATTable           ID = "dnat-table-present"
	PortInUse           ID = "port-in-use"
	MetricsPortInUse    ID = "metrics-port-in-use"
)

// {error} is the error of the kernel or the service, {table} the name of a table.
func nftablesEntries() []Entry {
	return []Entry{
		{
			ID: NftablesUnsupported, Check: "nftables", Level: Problem,
			Symptom:     "The state is `NftablesUnavailable`.",
			Message:     "The kernel lacks a part of nftables that the service needs: {error}",
			Remediation: "Load the modules that the error lists, or boot a kernel that contains them, as RHEL CoreOS does.",
			Commands:    []string{"modprobe -a nf_tables nf_conntrack nft_ct nft_chain_nat nft_nat nft_fib_inet nft_reject_inet"},
		},
		{
			ID: NftablesRejected, Check: "nftables", Level: Problem,
			Symptom: "The state is `NftablesUnavailable`, although nftables works on the host.",
			Message: "The kernel accepts the service's table, but the service cannot create it: {error}",
			Remediation: "Start the service by its unit, with CAP_NET_ADMIN in its capability lists. For another " +
				"cause, fix what the error names.",
			Commands: []string{
				"systemctl show http01-proxyd --property=FragmentPath,DropInPaths,AmbientCapabilities,CapabilityBoundingSet",
				"systemctl restart http01-proxyd",
			},
		},
		{
			ID: DNATTable, Check: "nftables", Level: Warning,
			Symptom: "While this service is stopped or disabled, requests to port 80 of the first IPv4 API VIP get the ingress's response.",
			Message: "The table inet {table} of cert-manager-operator's HTTP01Proxy is loaded too. It forwards all of port 80 of the first IPv4 API VIP to the ingress whenever this service does not redirect it",
			Remediation: "Delete the object HTTP01Proxy: the operator then removes its MachineConfig, which reboots the nodes. See " +
				docurl.FromHTTP01Proxy + ". Until the next boot, the last command removes the table on this host.",
			Commands: []string{
				"nft list table inet {table}", "oc get http01proxies.operator.openshift.io -A",
				"systemctl stop crtmgr-http01-dnat",
			},
		},
	}
}

// {owner} is a process, a unit or a pod. {unit}, {pod} and {pid} are empty if they are unknown, or if
// another one describes the owner better.
func portEntries() []Entry {
	const check = "port"
	stop := []string{
		showListeners,
		"oc get pod -A -o custom-columns=NAMESPACE:.metadata.namespace,NAME:.metadata.name,UID:.metadata.uid | grep {pod}",
		"systemctl disable --now {unit}",
		"kill {pid}",
	}
	return []Entry{
		{
			ID: PortInUse, Check: check, Level: Problem,
			Symptom: "The state is `PortInUse`.",
			Message: "Port {port} of the service is in use by {owner}",
			Remediation: "Stop that program. Or set another port on every control-plane node in /etc/http01-proxyd/config.yaml " +
				"(mode: CustomDeployment, customDeployment: {internalPort: …}).",
			Commands: stop,
		},
		{
			ID: MetricsPortInUse, Check: check, Level: Warning,
			Symptom:     "Prometheus gets no metrics, or metrics of another program. Challenges are answered.",
			Message:     "Metrics are not served on {address}, because the port is in use by {owner}",
			Remediation: "Stop that program. Or set another port in metrics.listenAddress of config.yaml, in the EndpointSlice and in the ServiceMonitor.",
			Commands:    stop,
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
		check      = "vips"
		explicit   = " Or set vips.api and vips.ingress in /etc/http01-proxyd/config.yaml."
		symptom    = "The state is `NoVIPs`."
		keepalived = "crictl logs --tail=20 \"$(crictl ps -aq --name keepalived | head -n1)\""
	)
	return []Entry{
		{
			ID: KeepalivedConfigMissing, Check: check, Level: Problem,
			Symptom:     symptom,
			Message:     "{path} does not exist, although keepalived's static pod does ({manifest})",
			Remediation: "Find out why the pod did not write the file." + explicit,
			Commands:    []string{"crictl ps -a --name keepalived", keepalived, "journalctl -u kubelet --since=-1h -g keepalived --no-pager"},
		},
		{
			ID: KeepalivedConfigUnreadable, Check: check, Level: Problem,
			Symptom: symptom + " Or it is `Serving` with `the last good VIPs stay in use`.",
			Message: "keepalived.conf cannot be used: {error}",
			Remediation: "Correct the file, with mode 0644. " +
				"If it is incomplete, the disk may be full, or its container fails." + explicit,
			Commands: []string{"ls -l {path}", "df -h {path}", keepalived, "chmod 0644 {path}"},
		},
		{
			ID: KeepalivedNoAPIInstance, Check: check, Level: Problem,
			Symptom:     symptom,
			Message:     "{path} contains no vrrp_instance named *_API_<n> with an address",
			Remediation: "Check that this is a control-plane node whose API VIP is managed by keepalived." + explicit,
			Commands:    []string{"grep -n vrrp_instance {path}"},
		},
		{
			ID: IngressVIPMissing, Check: check, Level: Problem,
			Symptom:     symptom,
			Message:     "{path} contains the API VIP {vip} but no ingress VIP, and keepalived's static pod names none",
			Remediation: "Check that {manifest} sets --api-vips and --ingress-vips." + explicit,
			Commands:    []string{"grep -n -e vrrp_instance -A12 {path}", "grep -n -e -vips {manifest}"},
		},
		{
			ID: KubeVIPUnusable, Check: check, Level: Problem,
			Symptom:     symptom + " Or it is `Serving` with `the known VIPs stay in use`.",
			Message:     "{error}",
			Remediation: "Compare kube-vip's static pods with the pods of another control-plane node: the variable address of each is its VIP." + explicit,
			Commands:    []string{"grep -rn -A1 'name: address$' {manifests}"},
		},
		{
			ID: VIPsUserManaged, Check: check, Level: Problem,
			Symptom: "The state is `ExternalLoadBalancer`.",
			Message: "The VIPs are user-managed and never on a node: OpenShift has disabled keepalived ({manifest})",
			Remediation: "Let that load balancer forward port 80 of the API address to the ingress: see " +
				docurl.ExternalBalancer + ". You do not need this service here.",
		},
		{
			ID: VIPsShared, Check: check, Level: Warning,
			Symptom:     "The state is `NotRequired`.",
			Message:     "The API and the ingress share {vip}, so its port 80 belongs to the ingress and this service does nothing there",
			Remediation: "You do not need to do anything while a router responds there. Otherwise, use a separate address for the API.",
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
// {vip} the API VIPs, {port} the port of the packets in that chain, {sources} the
// hosts that sent them, {source} and {address} one of them and its VIP. The trace knows the command
// that lets packets pass a rule, so most entries here need none.
func rulesetEntries() []Entry {
	const (
		check  = "ruleset"
		source = "Change the rule where it is defined: a MachineConfig, /etc/sysconfig/nftables.conf or firewalld. " +
			"Run oc commatrix again with --host-open-ports after the installation, or with the custom entry ingress,TCP,{port},,http01-proxyd,,,master,false."
		until = " Until the ruleset is loaded again, the command opens the port."
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
			Remediation: "Exclude port 80 of {vip} from that rule, or raise the priority of that nat chain above -110. An API VIP must not be in spec.externalIPs of a Service." + until,
		},
		{
			ID: PacketLost, Check: check, Level: Problem,
			Symptom:     "The state is `Serving`, but connections to the VIP time out, and no rule of nftables drops them.",
			Message:     "Packets from {sources} to {vip} are lost on this host: {how}",
			Remediation: "The kernel's counter shows why. Check the route back to the client, rp_filter, the size of the connection table, and legacy iptables rules (iptables-legacy -S).",
			Commands: []string{
				"ip route get {source} from {address}",
				"sysctl net.ipv4.conf.all.rp_filter net.netfilter.nf_conntrack_count net.netfilter.nf_conntrack_max",
				"sysctl -w net.ipv4.conf.{filtering}.rp_filter=2",
			},
		},
		{
			ID: ReplyDropped, Check: check, Level: Problem,
			Symptom:     "The state is `Serving` and the counters of the table's chain `prerouting` grow, but clients time out.",
			Message:     "The service's replies from {vip} to {sources} are dropped at port {port} in chain {chain}: {rule}",
			Remediation: source + until,
		},
		{
			ID: LocalTrafficBlocked, Check: check, Level: Warning,
			Symptom: "The CA gets the key, but self checks of pods in the host's network fail on the holder of the VIP. " +
				"The message of the state mentions it.",
			Message:     "Connections of this host itself to port 80 of {vip} do not reach the service, because of chain {chain}: {rule}",
			Remediation: "Add a rule that accepts packets on lo where the ruleset is defined." + until,
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
			Remediation: "Add {name} or its domain to spec.noProxy of proxy/cluster. The machine-config-operator then reboots the nodes one by one, and cert-manager's pods restart.",
			Commands: []string{
				"oc get proxy cluster -o jsonpath='{.spec.noProxy}{\"\\n\"}'",
				// Without the present list, read fails and nothing is changed.
				`oc get proxy cluster -o jsonpath='{.spec.noProxy}{"\n"}' | { read -r old && oc patch proxy cluster ` +
					`--type=merge --patch='{"spec":{"noProxy":"'"${old:+$old,}"'{name}"}}'; }`,
			},
		},
		{
			ID: ProxyFileInvalid, Check: check, Level: Warning,
			Symptom:     "The condition `EgressProxyReady` is False with `InvalidProxy`, or it is unknown whether self checks leave through the egress proxy.",
			Message:     "{path} cannot be used: {error}",
			Remediation: "Check proxy/cluster. The machine-config-operator writes the file from it.",
			Commands:    []string{showProxy},
		},
		{
			ID: EgressNotReady, Check: check, Level: Problem,
			Symptom:     "The condition `EgressProxyReady` is False with `NotReady`.",
			Message:     "The egress proxy {proxy} from {source} is not accepted: {error}. {current}",
			Remediation: "Let the egress proxy forward requests to egressProxy.readinessEndpoints of config.yaml, or set other endpoints there. The service retries at least every minute.",
			Commands:    []string{showProxy, "http01-proxyd status -o wide", showJournal},
		},
		{
			ID: EgressCAInvalid, Check: check, Level: Problem,
			Symptom:     "The condition `EgressProxyReady` is False with `InvalidProxy`.",
			Message:     "The CA bundle of the egress proxy cannot be used: {error}",
			Remediation: "Check spec.trustedCA of proxy/cluster, from which the machine-config-operator writes {path}. Or set egressProxy.trustedCA in /etc/http01-proxyd/config.yaml.",
			Commands: []string{
				"ls -l {path}", "openssl storeutl -noout -certs -text {path}",
				"oc get proxy cluster -o jsonpath='{.spec.trustedCA.name}{\"\\n\"}'",
			},
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

// {problem} begins with file, line and column. {own} is the file if no MachineConfig owns it: a node is
// degraded when such a file changes.
func configEntries() []Entry {
	const (
		check    = "config"
		symptom  = "The state is `InvalidConfig`, and a change of the configuration has no effect."
		delivery = " On OpenShift, change the MachineConfig instead: render and apply it again."
	)
	return []Entry{
		{
			ID: ConfigInvalid, Check: check, Level: Problem,
			Symptom:     symptom,
			Message:     "The configuration is invalid: {problem}",
			Remediation: "{fix} The service reloads a corrected file automatically.",
			Commands:    []string{"cat -n {path}", "http01-proxyd check --only config --config {path}"},
		},
		{
			ID: ConfigUnreadable, Check: check, Level: Problem,
			Symptom:     symptom,
			Message:     "{path} cannot be used: {error}",
			Remediation: "Make {path} a file that all users can read (mode 0644). The service reloads it automatically.",
			Commands:    []string{"ls -ldZ {path}", "chmod 0644 {file}"},
		},
		{
			ID: Disabled, Check: check, Level: Problem,
			Symptom:     "The state is `Disabled`.",
			Message:     `{path} contains mode: "", which disables http01-proxyd`,
			Remediation: "Remove that line, or set mode: DefaultDeployment." + delivery,
			Commands:    []string{"grep -n '^mode:' {path}", "sed -i '/^mode:/d' {own}"},
		},
		{
			ID: HostsInternalName, Check: check, Level: Warning,
			Symptom:     "A Certificate for `api-int.<cluster>` is requested. If the API server presents it, the nodes are `NotReady`.",
			Message:     "hosts in {path} contains {name}, by which the nodes reach the API. They trust only the cluster's own CA for it",
			Remediation: "Remove {name} from hosts, and from dnsNames of the Certificate. Never use it in spec.servingCerts.namedCertificates of apiserver/cluster. See " + docurl.InternalName + ".",
			Commands:    []string{"grep -n -A5 '^hosts:' {path}", showNamed},
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
	const (
		check   = "service"
		restart = "systemctl restart http01-proxyd"
	)
	return []Entry{
		{
			ID: ServiceNotRunning, Check: check, Level: Problem, CausedBy: []ID{SELinuxLabel},
			Symptom:     "Connections to port 80 of the API VIP are refused. `systemctl status http01-proxyd` shows no status line.",
			Message:     "The service is not running: {state}",
			Remediation: "Start it. If it stops again, its journal shows why: a drop-in can remove a permission that the service needs.",
			Commands: []string{
				"systemctl reset-failed {failed}", "systemctl enable --now http01-proxyd", showJournal,
			},
		},
		{
			ID: ServiceUnresponsive, Check: check, Level: Problem, CausedBy: []ID{SELinuxLabel},
			Symptom:     "`systemctl status http01-proxyd` reports that the service is active, but `http01-proxyd status` times out.",
			Message:     "The service runs but does not respond: {state}",
			Remediation: "Restart it, which refuses no connection. systemd does the same after 30 s (WatchdogSec=). If it hangs again, its journal shows the last action.",
			Commands:    []string{restart, showJournal},
		},
		{
			ID: ServiceReportUnreadable, Check: check, Level: Problem,
			Symptom: "`http01-proxyd status` ends with `the service is running, but its report cannot be read`.",
			Message: "The service runs, but its status report is not readable: {error}",
			Remediation: "Restart the service, which refuses no connection and starts the installed version. Do not " +
				"stop the process on the internal port, which is the service.",
			Commands: []string{"journalctl -u http01-proxyd EVENT=status-report -n 5 --no-pager", restart},
		},
		{
			ID: ServiceNotReady, Check: check, Level: Problem,
			Symptom:     "The state is `ProxyUnavailable`, stays `Starting`, or is one that no other check explains.",
			Message:     "The service runs but is not ready: {state}",
			Remediation: "The journal shows the reason, and the audit log what SELinux denies. A restart refuses no connection.",
			Commands:    []string{showJournal, "ausearch -m avc -c http01-proxyd --start recent", restart},
		},
		{
			ID: SELinuxLabel, Check: check, Level: Problem,
			Symptom:     "The service does not start (`203/EXEC`) or lacks a permission, and SELinux is enforcing.",
			Message:     "SELinux is enforcing, and {path} has the type {type}, from which systemd cannot start a service",
			Remediation: "Restore the label. It then has the type bin_t of its directory.",
			Commands:    []string{"restorecon -v {path}", "systemctl restart http01-proxyd"},
		},
		{
			ID: SELinuxUnit, Check: check, Level: Warning,
			Symptom:     "A node is degraded after the MachineConfig was deleted, because `http01-proxyd-install.service` was not found. Or a unit is not loaded.",
			Message:     "SELinux is enforcing, and systemd may not read a unit of http01-proxyd: {detail}",
			Remediation: "Restore its label. The installer does this when it writes the file and at each boot: check whether it runs.",
			Commands: []string{
				"restorecon -v {unit}", "chcon --reference=/usr/lib/systemd/system {unit}", "systemctl daemon-reload",
				"systemctl status http01-proxyd-install --no-pager",
			},
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
