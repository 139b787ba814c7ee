// SPDX-License-Identifier: Apache-2.0

package findings

// What goes wrong on a MicroShift host.
const (
	MicroShiftConfigInvalid        ID = "microshift-config-refused"
	MicroShiftRouterRemoved        ID = "microshift-without-router"
	MicroShiftRouterNoAddress      ID = "microshift-router-nowhere"
	MicroShiftNodeAddressInternal  ID = "microshift-node-address-internal"
	MicroShiftInternalAddressAsVIP ID = "microshift-internal-address-as-vip"
	MicroShiftNodeAddressMissing   ID = "microshift-node-address-absent"
	MicroShiftRouterUnreachable    ID = "microshift-router-silent"

	MicroShiftInternalAddressMissing ID = "microshift-internal-address-absent"
	// MicroShiftInternalAddressWithheld: the service would put it there, and must not.
	MicroShiftInternalAddressWithheld ID = "microshift-internal-address-held-back"
	// MicroShiftAdvertiseAddressMissing: MicroShift puts a given address on no link.
	MicroShiftAdvertiseAddressMissing ID = "microshift-internal-address-forced-absent"
	MicroShiftInternalAddressConflict ID = "microshift-internal-address-taken"

	MicroShiftAPIServerUnreachable       ID = "microshift-api-server-silent"
	MicroShiftNameMissing                ID = "microshift-name-absent"
	MicroShiftNamedCertificateIgnored    ID = "microshift-named-certificate-ignored"
	MicroShiftExternalClientGetsInternal ID = "microshift-outside-gets-internal"
	MicroShiftInternalClientGetsExternal ID = "microshift-inside-gets-external"
	MicroShiftServiceNameMissing         ID = "microshift-inside-name-absent"
	MicroShiftCertificateExpired         ID = "microshift-certificate-expired"
	MicroShiftCertificateExpiresSoon     ID = "microshift-certificate-expires-soon"
)

// microShiftEntries are about the addresses: {dir} is MicroShift's directory, {node}
// the node's addresses.
func microShiftEntries() []Entry {
	const check = "vips"
	return []Entry{
		{
			ID: MicroShiftConfigInvalid, Check: check, Level: Problem,
			Symptom: "On a MicroShift host the state is `NoVIPs`, or it tells that MicroShift's last good configuration stays in force.",
			Message: "what {dir} says is not followed: {error}",
			Remediation: "correct it there: microshift show-config says what MicroShift itself makes of it; the service takes it up by itself, " +
				"or when MicroShift is started anew where a good one is in force meanwhile",
		},
		{
			ID: MicroShiftRouterRemoved, Check: check, Level: Problem,
			Symptom:     "On a MicroShift host the state is `UpstreamUnreachable`.",
			Message:     "MicroShift's ingress.status is Removed: there is no router that could answer challenges",
			Remediation: "set it to Managed in {dir}, or name a router of your own: vips.api and vips.ingress in /etc/http01-proxyd/config.yaml",
		},
		{
			ID: MicroShiftRouterNoAddress, Check: check, Level: Problem,
			Symptom:     "On a MicroShift host the state is `UpstreamUnreachable`.",
			Message:     "MicroShift's router listens nowhere: nothing of ingress.listenAddress is on this host",
			Remediation: "name addresses or links there that this host has",
		},
		{
			ID: MicroShiftNodeAddressMissing, Check: check, Level: Problem,
			Symptom:     "On a MicroShift host the state is `NoVIPs`.",
			Message:     "MicroShift's node address {node} is not on this host",
			Remediation: "correct node.nodeIP or node.nodeIPv6 in MicroShift's configuration, or put that address on a link",
		},
		{
			ID: MicroShiftInternalAddressAsVIP, Check: check, Level: Problem,
			Symptom: "The state names a VIP of which nothing is caught.",
			Message: "{vip} is where MicroShift has the internal address of its API server, and nothing is caught of it",
			Remediation: "give the address by which clients reach the API as vips.api in its place; if {vip} is that, and MicroShift is not on this host, " +
				"put it on another link than lo and br-ex, or there with its network's prefix length; where MicroShift was before, " +
				"stop the service, and delete microshift-in-force.json in /var/lib/http01-proxyd/state",
		},
		{
			ID: MicroShiftNodeAddressInternal, Check: check, Level: Problem,
			Symptom:     "On a MicroShift host the state is `NoVIPs`.",
			Message:     "{node} is the internal address of MicroShift's API server too (apiServer.advertiseAddress), of which nothing is caught, and the router is not on its port 80",
			Remediation: "leave apiServer.advertiseAddress out, or let the router listen on {node} on port 80 (ingress.listenAddress, ingress.ports.http)",
		},
	}
}

// internalAddressEntries are about the address by which pods reach the API server.
func internalAddressEntries() []Entry {
	const (
		check   = "internal-address"
		symptom = "Pods of a MicroShift host do not reach the API server: cert-manager makes no challenges."
	)
	return []Entry{
		{
			ID: MicroShiftInternalAddressMissing, Check: check, Level: Problem,
			Symptom: symptom,
			Message: "{address}, by which pods reach the API server, is neither on lo nor on br-ex",
			Remediation: "systemctl status microshift: it puts it there as it starts; where it has not, or somebody takes the address away, " +
				"microshift.manageAdvertiseAddress: true in /etc/http01-proxyd/config.yaml has this service keep it on lo; where it is set already, http01-proxyd status says what is in the way",
		},
		{
			ID: MicroShiftInternalAddressWithheld, Check: check, Level: Problem,
			Symptom: symptom,
			Message: "{address}, by which pods reach the API server, is neither on lo nor on br-ex, and this service does not put it there: " +
				"MicroShift would take {mistaken} for the node's address as it starts",
			Remediation: "give node.{key} in MicroShift's configuration; or systemctl start microshift, which puts it there itself",
		},
		{
			ID: MicroShiftAdvertiseAddressMissing, Check: check, Level: Problem,
			Symptom:     "MicroShift does not start, or " + symptom,
			Message:     "{address}, which apiServer.advertiseAddress gives, is on no link of this host, and neither MicroShift nor this service puts a given one anywhere",
			Remediation: "put it on a link (nmcli connection modify … +ipv4.addresses {address}/32), or leave apiServer.advertiseAddress out",
		},
		{
			ID: MicroShiftInternalAddressConflict, Check: check, Level: Problem,
			Symptom:     symptom,
			Message:     "{address}, by which pods are to reach the API server, is somebody else's: {why}",
			Remediation: "give another network.serviceNetwork or an apiServer.advertiseAddress in MicroShift's configuration, or take that away",
		},
	}
}

func microShiftRouterEntries() []Entry {
	return []Entry{{
		ID: MicroShiftRouterUnreachable, Check: "ingress", Level: Problem, CausedBy: packetLossCauses(),
		Symptom: "Connections to port 80 of a MicroShift node are refused or time out, although the state is `NotRequired`; or the state is `UpstreamUnreachable`.",
		Message: "MicroShift's router is to answer at {upstream}, and nobody does there ({how})",
		Remediation: "oc get pod,service -n openshift-ingress shows whether router-default runs and has that address; then ingress.listenAddress and ingress.ports of MicroShift's configuration, " +
			"which counts once MicroShift has started anew, and the host's firewall",
	}}
}

// microShiftCertificateEntries are about what MicroShift's API server presents.
// {server} is address and port, {asked} the client, {name} what that calls the
// server, {issuer} the CA, {domain} whose clients trust it.
func microShiftCertificateEntries() []Entry {
	const (
		check = "certificate"
		// MicroShift makes them anew when it starts and the names are others
		// (pkg/util/cryptomaterial/certchains there).
		restart = "systemctl restart microshift, which makes the certificates anew where the names have changed"
	)
	return []Entry{
		{
			ID: MicroShiftAPIServerUnreachable, Check: check, Level: Problem,
			Symptom:     "`oc` and all other clients of a MicroShift host's API get no connection.",
			Message:     "MicroShift's API server shows no certificate at {server}: {error}",
			Remediation: "systemctl status microshift, and journalctl -u microshift; where it runs, the host's firewall",
		},
		{
			ID: MicroShiftNamedCertificateIgnored, Check: check, Level: Problem,
			Symptom: "A MicroShift host's API server goes on with its own certificate, although a new one is in place.",
			Message: "apiServer.namedCertificates has a certificate for {asked}, and {server} presents one of its own there, issued by {issuer}",
			Remediation: "see that certPath and keyPath are there and fit together: a renewed pair is taken within a minute or so; where the configuration has changed, or a file was missing as MicroShift " +
				"started, systemctl restart microshift; journalctl -u microshift names one " +
				"that it ignores, as for localhost, names of services and addresses inside the cluster",
		},
		{
			ID: MicroShiftNameMissing, Check: check, Level: Problem,
			Symptom:     "Clients refuse the certificate of a MicroShift host's API because the name, or the address, does not match.",
			Message:     "the certificate that {server} presents for {asked} does not hold that; it is issued by {issuer}, for {domain}",
			Remediation: "add it to apiServer.subjectAltNames of MicroShift's configuration, or give a certificate for it in apiServer.namedCertificates; then " + restart,
		},
		{
			ID: MicroShiftExternalClientGetsInternal, Check: check, Level: Problem,
			Symptom: "Clients outside of a MicroShift host do not trust its API server (`certificate signed by unknown authority`).",
			Message: "clients outside that ask {server} for {asked} are handed a certificate that is for {domain} alone, issued by {issuer}",
			Remediation: "have them use a name of apiServer.subjectAltNames; without a name, the address decides: leave apiServer.advertiseAddress out where it is the node's own, so that " +
				"the two have an address each; then " + restart,
		},
		{
			ID: MicroShiftInternalClientGetsExternal, Check: check, Level: Problem,
			Symptom: "Pods of a MicroShift host do not trust the API server (`certificate signed by unknown authority`, or is valid for other names).",
			Message: "clients inside that ask {server} for {asked} are handed a certificate that is for {domain}, issued by {issuer}",
			Remediation: "take the address out of apiServer.subjectAltNames and namedCertificates, or leave apiServer.advertiseAddress out, so that clients outside and inside " +
				"have an address each; then " + restart,
		},
		{
			ID: MicroShiftServiceNameMissing, Check: check, Level: Problem,
			Symptom:     "Pods of a MicroShift host refuse the API server's certificate because the name, or the address, does not match.",
			Message:     "the certificate that {server} presents for {asked} does not hold that; it is issued by {issuer}",
			Remediation: "network.serviceNetwork or apiServer.advertiseAddress is another than when it was made: " + restart,
		},
		{
			ID: MicroShiftCertificateExpired, Check: check, Level: Problem,
			Symptom:     "Clients refuse the certificate of a MicroShift host's API: it has expired.",
			Message:     "the certificate that {server} presents for {asked}, which MicroShift has issued itself ({issuer}), has expired on {date}",
			Remediation: "look at the host's clock, then systemctl restart microshift, which renews it",
		},
		{
			ID: MicroShiftCertificateExpiresSoon, Check: check, Level: Warning,
			Symptom:     "A certificate of a MicroShift host's API should have been renewed by now.",
			Message:     "the certificate that {server} presents for {asked}, which MicroShift has issued itself ({issuer}), expires on {date}, in {left}; it is to be renewed four months before",
			Remediation: "systemctl restart microshift renews it; journalctl -u microshift says why that has not happened by itself",
		},
	}
}
