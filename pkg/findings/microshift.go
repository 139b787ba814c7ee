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
	const check = "vips"
	return []Entry{
		{
			ID: MicroShiftConfigInvalid, Check: check, Level: Problem,
			Symptom: "On a MicroShift host the state is `NoVIPs`, or its message reports that MicroShift's last good configuration stays in use.",
			Message: "The configuration in {dir} is rejected: {error}",
			Remediation: "Correct the file. microshift show-config prints MicroShift's own reading. The service reloads it automatically. " +
				"MicroShift itself reads it when it restarts.",
		},
		{
			ID: MicroShiftRouterRemoved, Check: check, Level: Problem,
			Symptom:     "On a MicroShift host the state is `UpstreamUnreachable`.",
			Message:     "MicroShift's ingress.status is Removed, so no router can answer challenges",
			Remediation: "Set it to Managed in {dir}, or configure your own router with vips.api and vips.ingress in /etc/http01-proxyd/config.yaml.",
		},
		{
			ID: MicroShiftRouterNoAddress, Check: check, Level: Problem,
			Symptom:     "On a MicroShift host the state is `UpstreamUnreachable`.",
			Message:     "MicroShift's router listens on no address: no address or link in ingress.listenAddress is on this host",
			Remediation: "Set ingress.listenAddress to addresses or links of this host.",
		},
		{
			ID: MicroShiftNodeAddressMissing, Check: check, Level: Problem,
			Symptom:     "On a MicroShift host the state is `NoVIPs`.",
			Message:     "MicroShift's node address {node} is not on this host",
			Remediation: "Correct node.nodeIP or node.nodeIPv6 in MicroShift's configuration, or add that address to a link.",
		},
		{
			ID: MicroShiftInternalAddressAsVIP, Check: check, Level: Problem,
			Symptom: "The state names a VIP that is not redirected.",
			Message: "{vip} is the internal address of MicroShift's API server and is not redirected",
			Remediation: "Set vips.api to the address by which clients reach the API. If that is {vip}, and MicroShift does not run on this host, " +
				"add it to another link than lo and br-ex, or with its network's prefix length.",
		},
		{
			ID: MicroShiftNodeAddressInternal, Check: check, Level: Problem,
			Symptom:     "On a MicroShift host the state is `NoVIPs`.",
			Message:     "{node} is also the internal address of MicroShift's API server (apiServer.advertiseAddress), which is not redirected, and the router does not listen on its port 80",
			Remediation: "Remove apiServer.advertiseAddress, or let the router listen on {node} on port 80 (ingress.listenAddress, ingress.ports.http).",
		},
	}
}

// internalAddressEntries are about the address by which pods reach the API server.
func internalAddressEntries() []Entry {
	const (
		check   = "internal-address"
		symptom = "Pods of a MicroShift host do not reach the API server, and cert-manager creates no challenges."
	)
	return []Entry{
		{
			ID: MicroShiftInternalAddressMissing, Check: check, Level: Problem,
			Symptom: symptom,
			Message: "{address}, by which pods reach the API server, is neither on lo nor on br-ex",
			Remediation: "Run systemctl status microshift. MicroShift adds the address when it starts. If the address disappears later, " +
				"set microshift.manageAdvertiseAddress: true in /etc/http01-proxyd/config.yaml, so that this service keeps it on lo. If it is set already, http01-proxyd status shows the obstacle.",
		},
		{
			ID: MicroShiftAdvertiseAddressMissing, Check: check, Level: Problem,
			Symptom:     "MicroShift does not start. " + symptom,
			Message:     "{address} (apiServer.advertiseAddress) is on no link of this host. Neither MicroShift nor this service adds a configured address",
			Remediation: "Add it to a link (nmcli connection modify … +ipv4.addresses {address}/32), or remove apiServer.advertiseAddress.",
		},
		{
			ID: MicroShiftInternalAddressConflict, Check: check, Level: Problem,
			Symptom:     symptom,
			Message:     "{address}, by which pods reach the API server, is in use: {why}",
			Remediation: "Set another network.serviceNetwork or apiServer.advertiseAddress in MicroShift's configuration, or remove the conflicting address.",
		},
	}
}

func microShiftRouterEntries() []Entry {
	return []Entry{{
		ID: MicroShiftRouterUnreachable, Check: "ingress", Level: Problem,
		Symptom: "Connections to port 80 of a MicroShift node are refused or time out, although the state is `NotRequired`. Or the state is `UpstreamUnreachable`.",
		Message: "MicroShift's router does not respond at {upstream} ({how})",
		Remediation: "Run oc get pod,service -n openshift-ingress to see whether router-default runs and has that address. Then check ingress.listenAddress and ingress.ports of MicroShift's configuration, " +
			"which applies after a restart of MicroShift, and the host's firewall.",
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
		restart = " Then run systemctl restart microshift, which creates new certificates when the names have changed."
	)
	return []Entry{
		{
			ID: MicroShiftAPIServerUnreachable, Check: check, Level: Problem,
			Symptom:     "`oc` and all other clients of a MicroShift host's API cannot connect.",
			Message:     "MicroShift's API server presents no certificate at {server}: {error}",
			Remediation: "Run systemctl status microshift and journalctl -u microshift. If it runs, check the host's firewall.",
		},
		{
			ID: MicroShiftNamedCertificateIgnored, Check: check, Level: Problem,
			Symptom: "A MicroShift host's API server presents its own certificate, although a new one is in place.",
			Message: "apiServer.namedCertificates has a certificate for {requested}, but {server} presents one of its own, issued by {issuer}",
			Remediation: "Check that certPath and keyPath exist and match. A renewed pair is loaded within about a minute. If the configuration has changed, or a file was missing when MicroShift " +
				"started, run systemctl restart microshift. MicroShift ignores certificates for localhost, service names and cluster-internal addresses, and reports them in journalctl -u microshift.",
		},
		{
			ID: MicroShiftNameMissing, Check: check, Level: Problem,
			Symptom:     "Clients reject the certificate of a MicroShift host's API because the name or the address does not match.",
			Message:     "The certificate that {server} presents for {requested} (issued by {issuer}) does not contain that name",
			Remediation: "Add the name to apiServer.subjectAltNames of MicroShift's configuration, or configure a certificate for it in apiServer.namedCertificates." + restart,
		},
		{
			ID: MicroShiftExternalClientGetsInternal, Check: check, Level: Problem,
			Symptom: "External clients of a MicroShift host do not trust its API server (`certificate signed by unknown authority`).",
			Message: "External clients that connect to {server} as {requested} get a certificate for internal clients, issued by {issuer}",
			Remediation: "Use a name of apiServer.subjectAltNames in these clients. Without a name, the address selects the certificate. Remove apiServer.advertiseAddress if it is the node's own address, so that " +
				"external and internal clients use different addresses." + restart,
		},
	}
}
