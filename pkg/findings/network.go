// SPDX-License-Identifier: Apache-2.0

package findings

import "github.com/http01-proxyd/http01-proxyd/internal/docurl"

// packetLossCauses are the causes on this host for which packets do not get through: any
// may have been among those that were lost.
func packetLossCauses() []ID { return []ID{ConntrackDrops} }

// What goes wrong with the VIPs.
const (
	VIPUnassigned ID = "vip-nobody"
	VIPDuplicate  ID = "vip-two-hosts"
	// VIPTwoMACs: two hosts have it, or one host has two NICs there.
	VIPTwoMACs  ID = "vip-two-addresses"
	VIPLinkDown ID = "vip-link-down"
)

// {role} is API or ingress, {link} a link of this host.
func vipHolderEntries() []Entry {
	const check = "vip-holder"
	return []Entry{
		{
			ID: VIPUnassigned, Check: check, Level: Problem, CausedBy: packetLossCauses(),
			Symptom:     "Connections to the VIP end with `No route to host` or time out; every host's state is `Standby`.",
			Message:     "no host on {link} answers for the {role} VIP {vip}",
			Remediation: "look at keepalived on the hosts that may hold it (crictl logs of the keepalived pod; ip address): its health check may fail, or no host is eligible",
		},
		{
			ID: VIPDuplicate, Check: check, Level: Problem, CausedBy: packetLossCauses(),
			Symptom: "Some connections to the VIP succeed and others do not; two hosts are `Serving`. It happens when keepalived is killed hard on one of them.",
			Message: "more than one host has the {role} VIP {vip}: {holders}",
			Remediation: "find the host on which keepalived does not run, and take the address away there (ip address delete {vip} dev …) or start keepalived; " +
				"if keepalived runs on both, VRRP does not get through between them: look at the switch and the hosts' firewalls",
		},
		{
			ID: VIPTwoMACs, Check: check, Level: Warning, CausedBy: packetLossCauses(),
			Symptom: "`arping` shows two hardware addresses for the VIP.",
			Message: "{holders} answer for the {role} VIP {vip}: two hosts have it, or one host with two NICs in this network does, " +
				"and from here that cannot be told",
			Remediation: "run http01-proxyd check on the host that should have it, which knows its own NICs; " +
				"a host with two NICs in one network answers from the right one alone with net.ipv4.conf.all.arp_ignore=1",
		},
		{
			ID: VIPLinkDown, Check: check, Level: Problem,
			Symptom:     "The state is `Serving`, and nobody reaches the VIP.",
			Message:     "the {role} VIP {vip} is on {link} of this host, which is down",
			Remediation: "bring the link up; if keepalived does not run here any more, take the address away (ip address delete {vip} dev {link})",
		},
	}
}

// What goes wrong at the API VIP's port 80.
const (
	ProxyUnreachable     ID = "front-door-closed"
	SelfCheckDiffers     ID = "self-check-differs"
	SelfCheckFails       ID = "self-check-fails"
	ProxyResponseDiffers ID = "front-door-answer-differs"
	NameNotAllowed       ID = "name-not-in-hosts"
)

// {door} is address and port of an API VIP, {how} what happens there.
func vipPortEntries() []Entry {
	const (
		check      = "self-check"
		ownClients = "this host's own connections go through its output chains: look there (nft list ruleset), and at its routing rules (ip rule), for what drops, " +
			"rejects or redirects port 80 of the VIP; pods in the host's network and self checks go the same way"
	)
	return []Entry{
		{
			ID: ProxyUnreachable, Check: check, Level: Problem, CausedBy: append(LocalServingFaults(), packetLossCauses()...),
			Symptom:     "CAs and self checks get no answer, or that of something else, at the API VIP's port 80.",
			Message:     "no front door is at {door}: {how}",
			Remediation: "on the host that holds the VIP: systemctl status http01-proxyd, and http01-proxyd check; else look for a firewall between here and there",
		},
		{
			ID: SelfCheckDiffers, Check: check, Level: Problem, CausedBy: append(LocalServingFaults(), packetLossCauses()...),
			Symptom:     "cert-manager's challenges stay pending with a failing self check on one host, while others, and the CA, get the right answer.",
			Message:     "what this host itself gets at {door} is not what the network gets: {how}; the front door has answered {client} with {status} at {time}",
			Remediation: ownClients,
		},
		{
			ID: SelfCheckFails, Check: check, Level: Problem, CausedBy: append(LocalServingFaults(), packetLossCauses()...),
			Symptom:     "cert-manager's challenges stay pending with a failing self check on the master that holds the VIP, and no CA has asked yet.",
			Message:     "this host itself finds no front door at {door}, although it holds the VIP and the service is ready: {how}; whether others find it is not known, since none has asked for a challenge lately",
			Remediation: "curl -i http://{door}/ on another host, which is to get 400; if it does, " + ownClients,
		},
		{
			ID: ProxyResponseDiffers, Check: check, Level: Problem, CausedBy: append(LocalServingFaults(), packetLossCauses()...),
			Symptom: "A challenge gets another answer at the API VIP than at the ingress.",
			Message: "the challenge gets another answer through the front door at {door} ({how}) than straight from {upstream} ({straight})",
			Remediation: "run this again, since a route may have changed in between; if it stays so, see which upstream the service has (http01-proxyd status), " +
				"and what redirects port 80 of the VIP on this host (nft list ruleset)",
		},
		{
			ID: NameNotAllowed, Check: check, Level: Problem,
			Symptom:     "Challenges for the name get 400 with `Only /.well-known/acme-challenge/* is allowed`.",
			Message:     "the front door at {door} does not answer for {name}",
			Remediation: "add the name to hosts in /etc/http01-proxyd/config.yaml on every master, or remove hosts",
		},
	}
}

// What goes wrong with a name or with the answer to a challenge.
const (
	NameAlreadyServed     ID = "name-served-already"
	TokenUnknown          ID = "token-unknown"
	ResponseStatus        ID = "answer-status"
	ResponseTrailingSpace ID = "answer-trailing-space"
	ResponseTooLong       ID = "answer-too-long"
	ResponseNotKey        ID = "answer-not-key"
)

// {name} is the name that was asked for, {upstream} address and port of the
// router.
func challengeEntries() []Entry {
	const check = "route"
	return []Entry{
		{
			ID: NameAlreadyServed, Check: check, Level: Warning,
			Symptom: "A challenge stays pending; the solver's route is not admitted (`HostAlreadyClaimed`).",
			Message: "{upstream} has an answer ({how}) to a challenge for {name} that nobody has asked for: a route serves this name already",
			Remediation: "if that route is of another namespace than cert-manager's challenges, the solver's is refused: " +
				"oc get route -A shows who claims the host",
		},
		{
			ID: TokenUnknown, Check: check, Level: Problem,
			Symptom: "Challenges get 404.",
			Message: "{upstream} answered 404: what is behind the route does not know this token for {name}",
			Remediation: "oc get challenge -A -o yaml shows the pending ones with spec.token and spec.dnsName; if it is pending, an older route or another application has its path, " +
				"or the route leads to another solver",
		},
		{
			ID: ResponseStatus, Check: check, Level: Problem,
			Symptom:     "Challenges get another status than 200.",
			Message:     "{upstream} answered {how}, and a CA takes 200 alone",
			Remediation: "look which route of {name} has the path (oc get route -A), and at the solver's pod behind it",
		},
		{
			ID: ResponseTrailingSpace, Check: check, Level: Problem,
			Symptom:     "cert-manager's self check never passes, while Let's Encrypt would accept the answer.",
			Message:     "the answer carries more than the key: {what} follows it",
			Remediation: "let the solver's answer be the key alone: a solver of your own, or what rewrites answers on the way, adds it; cert-manager compares byte for byte",
		},
		{
			ID: ResponseTooLong, Check: check, Level: Problem,
			Symptom:     "The CA refuses the challenge as too long.",
			Message:     "the answer carries more than the key: it has {bytes} bytes, and CAs read 127",
			Remediation: "let the solver's answer be the key alone: see which application answers for {name}",
		},
		{
			ID: ResponseNotKey, Check: check, Level: Problem,
			Symptom:     "The CA refuses the challenge because the key authorisation differs.",
			Message:     "the answer is not the key of this token: it is {what}",
			Remediation: "an application answers instead of the solver: look which route of {name} has the path (oc get route -A)",
		},
	}
}

// What goes wrong with the name in the DNS.
const (
	DNSNoServer      ID = "dns-silent"
	DNSNoRecord      ID = "dns-absent"
	DNSFamilyMissing ID = "dns-family-absent"
	// DNSServerFails: a server does not say what it knows.
	DNSServerFails  ID = "dns-server-fails"
	DNSOtherAddress ID = "dns-elsewhere"
	// DNSOtherAddressUnreachable: from here it cannot be told where it leads.
	DNSOtherAddressUnreachable ID = "dns-elsewhere-unreachable"
	AddressFamilyBroken        ID = "family-broken"
)

// {server} is the DNS server that was asked, {type} A or AAAA.
func dnsEntries() []Entry {
	const check = "dns"
	return []Entry{
		{
			ID: DNSNoServer, Check: check, Level: Problem, CausedBy: append(packetLossCauses(), VIPLinkDown),
			Symptom:     "Names do not resolve on this host; self checks fail with `no such host` or time out.",
			Message:     "no DNS server answers: {servers}",
			Remediation: "correct /etc/resolv.conf, or look at these servers and the way to them",
		},
		{
			ID: DNSNoRecord, Check: check, Level: Problem,
			Symptom:     "The CA says that it finds no address for the name (`NXDOMAIN`, `no valid A or AAAA records`).",
			Message:     "{server} knows no address of {name}",
			Remediation: "make an A or AAAA record for it with the API VIP: {vips}",
		},
		{
			ID: DNSFamilyMissing, Check: check, Level: Warning,
			Symptom:     "Clients of one address family do not find the API.",
			Message:     "{server} has no {type} record for {name}, while the cluster has an API VIP of that family",
			Remediation: "make one with {vips}, or leave it if that family is not to be used: CAs take the other",
		},
		{
			ID: DNSServerFails, Check: check, Level: Problem, CausedBy: packetLossCauses(),
			Symptom: "The CA reports `SERVFAIL`, or that its DNS query timed out, for the name.",
			Message: "{server} {how} when it is asked for the {type} record of {name}",
			Remediation: "dig {name} {type} @{server}, and the same at the servers of the zone: a delegation, DNSSEC, or a server or firewall that does not take {type} queries; " +
				"a CA asks for both types, and may refuse the name while one fails",
		},
		{
			ID: DNSOtherAddress, Check: check, Level: Problem, CausedBy: packetLossCauses(),
			Symptom:     "The CA asks another host than the API VIP.",
			Message:     "the {type} record of {name} leads to {address}, which is no API VIP and shows no front door ({how})",
			Remediation: "correct the record: {vips}; if {address} forwards to the VIP for those outside only, see that it forwards port 80 too",
		},
		{
			ID: DNSOtherAddressUnreachable, Check: check, Level: Warning, CausedBy: packetLossCauses(),
			Symptom: "The CA asks another address than the API VIP.",
			Message: "the {type} record of {name} leads to {address}, which is no API VIP, and cannot be connected to from here ({how})",
			Remediation: "if {address} forwards to the VIP for those outside only (NAT without hairpin), all may be well: try curl -v http://{name}/ from outside, which has to show the front door; " +
				"else correct the record: {vips}",
		},
		{
			ID: AddressFamilyBroken, Check: check, Level: Problem, CausedBy: packetLossCauses(),
			Symptom:     "The CA's validation times out or is refused, while it works by hand: it asks IPv6 first, and does not fall back once it is connected.",
			Message:     "{name} has addresses of both families, and {door} does not work ({how}), while {other} does",
			Remediation: "mend the way to {door} (firewalls for that family, routes), or remove its record until it works",
		},
	}
}

// What goes wrong with the certificate that the API server presents.
const (
	APIServerUnreachable        ID = "api-server-absent"
	CertificateNameMissing      ID = "certificate-name-absent"
	CertificateExpired          ID = "certificate-expired"
	CertificateExpiryUrgent     ID = "certificate-expires-now"
	CertificateExpiresSoon      ID = "certificate-expires-soon"
	CertificateNotYetValid      ID = "certificate-not-valid-yet"
	CertificateDiffersByAddress ID = "certificate-differs-by-address"
	CertificateDiffersByName    ID = "certificate-differs-by-name"
)

// {server} is address and port, {asked} the name that was asked for by SNI.
func certificateEntries() []Entry {
	const check = "certificate"
	return []Entry{
		{
			ID: APIServerUnreachable, Check: check, Level: Warning,
			Symptom: "`oc` and all other clients of the API get no connection.",
			Message: "this host holds the VIP, and shows no certificate at {server}: {error}",
			Remediation: "look at the API server on this host (crictl ps -a --name kube-apiserver, crictl logs), and at HAProxy and keepalived beside it: " +
				"where it is down, the VIP is to be on another host",
		},
		{
			ID: CertificateNameMissing, Check: check, Level: Problem,
			Symptom:     "Clients refuse the API's certificate because the name does not match.",
			Message:     "the certificate that {server} presents for {asked} (issued by {issuer}) does not hold that name",
			Remediation: "add the name to the certificate, and see that spec.servingCerts.namedCertificates of apiserver/cluster names it",
		},
		{
			ID: CertificateExpired, Check: check, Level: Problem,
			Symptom:     "Clients refuse the API's certificate: it has expired.",
			Message:     "the certificate that {server} presents for {asked} (issued by {issuer}) has expired on {date}",
			Remediation: "log in and renew as " + docurl.CertificateExpired + " says; the other checks say why it was not renewed",
		},
		{
			ID: CertificateExpiryUrgent, Check: check, Level: Problem,
			Symptom:     "A certificate should have been renewed long ago.",
			Message:     "the certificate that {server} presents for {asked} (issued by {issuer}) expires on {date}, in {left}: less than a tenth of its life, or than a day",
			Remediation: "oc describe certificate and oc get challenge -A say where the renewal stands; with a pending challenge, run this with --token",
		},
		{
			ID: CertificateExpiresSoon, Check: check, Level: Warning,
			Symptom:     "A certificate should have been renewed by now.",
			Message:     "the certificate that {server} presents for {asked} (issued by {issuer}) expires on {date}, in {left}: less than a quarter of its life",
			Remediation: "oc describe certificate says when it is renewed; with a pending challenge, run this with --token",
		},
		{
			ID: CertificateNotYetValid, Check: check, Level: Problem,
			Symptom:     "Clients refuse the API's certificate: it is not valid yet.",
			Message:     "the certificate that {server} presents for {asked} (issued by {issuer}) is valid from {date} only",
			Remediation: "look at the clocks of this host and of the issuer",
		},
		{
			ID: CertificateDiffersByAddress, Check: check, Level: Warning,
			Symptom:     "Whether a client trusts the API depends on the address that it takes.",
			Message:     "for {asked} {server} presents a certificate of {issuer}, and {other} one of {otherIssuer}",
			Remediation: "an API server has not taken up the new certificate: oc get clusteroperator kube-apiserver, and the kube-apiserver pods of the masters",
		},
		{
			ID: CertificateDiffersByName, Check: check, Level: Warning,
			Symptom:     "Whether a client trusts the API depends on the name that it uses.",
			Message:     "{server} presents a certificate of {issuer} for {asked}, and one of {otherIssuer} for {other}",
			Remediation: "name both in spec.servingCerts.namedCertificates of apiserver/cluster, if both are to have a certificate of the same CA",
		},
	}
}

// What goes wrong on the way to the ingress, and with the clock.
const (
	PathMTUBlackHole ID = "path-black-hole"
	ClockOffset      ID = "clock-off"
)

func mtuEntries() []Entry {
	return []Entry{{
		ID: PathMTUBlackHole, Check: "mtu", Level: Warning, CausedBy: packetLossCauses(),
		Symptom:     "Small answers come and large ones do not: connections are made, and then hang.",
		Message:     "packets of {mtu} bytes, which {link} takes, do not reach {vip} and nobody says so; small ones do",
		Remediation: "set the same MTU on all links and switch ports on the way, or let ICMP (type 3 code 4; ICMPv6 type 2) through",
	}}
}

func clockEntries() []Entry {
	return []Entry{{
		ID: ClockOffset, Check: "clock", Level: Problem,
		Symptom:     "Certificates seem expired or not valid yet; tokens and ACME requests are refused.",
		Message:     "this host's clock is {off} {direction} that of {server}",
		Remediation: "look at chrony (chronyc tracking, chronyc sources) on the one that is wrong",
	}}
}
