// SPDX-License-Identifier: Apache-2.0

package findings

// Findings on a MicroShift host.
const (
	MicroShiftConfigInvalid        ID = "microshift-config-invalid"
	MicroShiftRouterRemoved        ID = "microshift-router-removed"
	MicroShiftRouterNoAddress      ID = "microshift-router-no-address"
	MicroShiftNodeAddressInternal  ID = "microshift-node-address-internal"
	MicroShiftInternalAddressAsVIP ID = "microshift-internal-address-as-vip"
	MicroShiftNodeAddressMissing   ID = "microshift-node-address-missing"
	MicroShiftRouterUnreachable    ID = "microshift-router-unreachable"

	MicroShiftInternalAddressMissing ID = "microshift-internal-address-missing"
	// MicroShiftAdvertiseAddressMissing: MicroShift adds a configured address to no link.
	MicroShiftAdvertiseAddressMissing ID = "microshift-advertise-address-missing"
	MicroShiftInternalAddressConflict ID = "microshift-internal-address-conflict"

	MicroShiftAPIServerUnreachable       ID = "microshift-api-server-unreachable"
	MicroShiftNameMissing                ID = "microshift-name-missing"
	MicroShiftNamedCertificateIgnored    ID = "microshift-named-certificate-ignored"
	MicroShiftExternalClientGetsInternal ID = "microshift-external-client-gets-internal"
)

// microShiftEntries are about the addresses. {dir} is MicroShift's directory, {node}
// the node's addresses.
func microShiftEntries() []Entry {
	const (
		check   = "vips"
		show    = "microshift show-config"
		links   = "ip -br address"
		restart = "systemctl restart microshift"
	)
	return []Entry{
		{
			ID: MicroShiftConfigInvalid, Check: check, Level: Problem,
			Symptom:     "The state is `NoVIPs`, or reports that MicroShift's last good configuration stays in use.",
			Message:     "The configuration in {dir} is rejected: {error}",
			Remediation: "Correct the file. This service reloads it automatically; MicroShift reads it when it restarts.",
			Commands:    []string{show, restart},
		},
		{
			ID: MicroShiftRouterRemoved, Check: check, Level: Problem,
			Symptom:     "The state is `UpstreamUnreachable`.",
			Message:     "MicroShift's ingress.status is Removed, so no router can answer challenges",
			Remediation: "Set it to Managed, or configure your own router with vips.api and vips.ingress in /etc/http01-proxyd/config.yaml.",
			Commands: []string{
				"grep -rn -A3 '^ingress:' {dir}",
				"mkdir -p {dir}/config.d && printf 'ingress:\\n  status: Managed\\n' > {dir}/config.d/99-http01-proxyd.yaml",
				restart,
			},
		},
		{
			ID: MicroShiftRouterNoAddress, Check: check, Level: Problem,
			Symptom:     "The state is `UpstreamUnreachable`.",
			Message:     "MicroShift's router listens on no address: no address or link in ingress.listenAddress is on this host",
			Remediation: "Set ingress.listenAddress to addresses or links of this host.",
			Commands:    []string{links, show},
		},
		{
			ID: MicroShiftNodeAddressMissing, Check: check, Level: Problem,
			Symptom:     "The state is `NoVIPs`.",
			Message:     "MicroShift's node address {node} is not on this host",
			Remediation: "Correct node.nodeIP or node.nodeIPv6 in MicroShift's configuration, or add that address to a link.",
			Commands:    []string{links, show},
		},
		{
			ID: MicroShiftInternalAddressAsVIP, Check: check, Level: Problem,
			Symptom: "The state names a VIP that is not redirected.",
			Message: "{vip} is the internal address of MicroShift's API server and is not redirected",
			Remediation: "Set vips.api to the address that clients use. If that is {vip}, and MicroShift does not run here, " +
				"add it to another link than lo and br-ex, or with its network's prefix length.",
			Commands: []string{links, show},
		},
		{
			ID: MicroShiftNodeAddressInternal, Check: check, Level: Problem,
			Symptom:     "The state is `NoVIPs`.",
			Message:     "{node} is also the internal address of MicroShift's API server (apiServer.advertiseAddress), which is not redirected, and the router does not listen on its port 80",
			Remediation: "Remove apiServer.advertiseAddress, or let the router listen on {node} on port 80 (ingress.listenAddress, ingress.ports.http).",
			Commands:    []string{links, show},
		},
	}
}

// internalAddressEntries are about the address by which pods reach the API server.
func internalAddressEntries() []Entry {
	const (
		check   = "internal-address"
		symptom = "Pods do not reach the API server, and cert-manager creates no challenges."
		show    = "ip -br address"
		add     = "ip address add {address} dev lo"
	)
	return []Entry{
		{
			ID: MicroShiftInternalAddressMissing, Check: check, Level: Problem,
			Symptom: symptom,
			Message: "{address}, by which pods reach the API server, is neither on lo nor on br-ex",
			Remediation: "MicroShift adds the address when it starts. If it disappears later, " +
				"set microshift.manageAdvertiseAddress: true in /etc/http01-proxyd/config.yaml: this service then keeps it on lo. http01-proxyd status shows obstacles.",
			Commands: []string{"systemctl status microshift --no-pager", add},
		},
		{
			ID: MicroShiftAdvertiseAddressMissing, Check: check, Level: Problem,
			Symptom:     "MicroShift does not start. " + symptom,
			Message:     "{address} (apiServer.advertiseAddress) is on no link of this host. Neither MicroShift nor this service adds a configured address",
			Remediation: "Add it to a link, permanently with nmcli (connection modify, +ipv4.addresses), or remove apiServer.advertiseAddress.",
			Commands:    []string{show, add},
		},
		{
			ID: MicroShiftInternalAddressConflict, Check: check, Level: Problem,
			Symptom:     symptom,
			Message:     "{address}, by which pods reach the API server, is in use: {why}",
			Remediation: "Set another network.serviceNetwork or apiServer.advertiseAddress in MicroShift's configuration, or remove the conflicting address.",
			Commands:    []string{show, "ip route get {address}"},
		},
	}
}

func microShiftRouterEntries() []Entry {
	return []Entry{{
		ID: MicroShiftRouterUnreachable, Check: "ingress", Level: Problem,
		Symptom: "Connections to port 80 of the node are refused or time out, although the state is " +
			"`NotRequired`. Or the state is `UpstreamUnreachable`.",
		Message: "MicroShift's router does not respond at {upstream} ({how})",
		Remediation: "Check router-default in openshift-ingress, the host's firewall, and ingress.listenAddress " +
			"and ingress.ports of MicroShift's configuration.",
		Commands: []string{"oc get pod,service -n openshift-ingress -o wide", "ss -lntp", "systemctl restart microshift"},
	}}
}

// microShiftCertificateEntries are about the certificates of MicroShift's API server.
// {server} is address and port, {requested} the name that the client uses, {issuer} the
// CA.
func microShiftCertificateEntries() []Entry {
	const (
		check = "certificate"
		// MicroShift creates them when it starts and the names have changed
		// (pkg/util/cryptomaterial/certchains there).
		restart = " MicroShift creates new certificates when it restarts."
		status  = "systemctl status microshift --no-pager"
		show    = "microshift show-config"
		journal = "journalctl -u microshift -n 50 --no-pager"
		again   = "systemctl restart microshift"
	)
	return []Entry{
		{
			ID: MicroShiftAPIServerUnreachable, Check: check, Level: Problem,
			Symptom:     "`oc` and all other clients of the API cannot connect.",
			Message:     "MicroShift's API server presents no certificate at {server}: {error}",
			Remediation: "Check MicroShift, and then the host's firewall.",
			Commands:    []string{status, journal},
		},
		{
			ID: MicroShiftNamedCertificateIgnored, Check: check, Level: Problem,
			Symptom: "The API server presents its own certificate, although a new one is in place.",
			Message: "apiServer.namedCertificates contains a certificate for {requested}, but {server} presents one of its own, issued by {issuer}",
			Remediation: "Check that certPath and keyPath exist and match. MicroShift loads a renewed pair within " +
				"about a minute. Restart it if its configuration has changed, or a file was missing when it " +
				"started. It ignores certificates for localhost, service names and cluster-internal " +
				"addresses, which its journal lists.",
			Commands: []string{show, journal, again},
		},
		{
			ID: MicroShiftNameMissing, Check: check, Level: Problem,
			Symptom:     "Clients reject the API's certificate because the name or the address does not match.",
			Message:     "The certificate that {server} presents for {requested} (issued by {issuer}) does not contain that name",
			Remediation: "Add the name to apiServer.subjectAltNames of MicroShift's configuration, or a certificate for it to apiServer.namedCertificates." + restart,
			Commands:    []string{show, again},
		},
		{
			ID: MicroShiftExternalClientGetsInternal, Check: check, Level: Problem,
			Symptom: "External clients do not trust the API server (`certificate signed by unknown authority`).",
			Message: "External clients that connect to {server} as {requested} get a certificate for internal clients, issued by {issuer}",
			Remediation: "Use a name of apiServer.subjectAltNames in these clients: without a name, the address selects the certificate. Remove apiServer.advertiseAddress if it is the node's own " +
				"address." + restart,
			Commands: []string{show, again},
		},
	}
}
