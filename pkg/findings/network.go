// SPDX-License-Identifier: Apache-2.0

package findings

import "github.com/http01-proxyd/http01-proxyd/internal/docurl"

// noPackets are the causes on this host for which packets do not get through: any
// may have been among those that were lost.
func noPackets() []ID { return []ID{ConntrackDrops} }

// What goes wrong with the VIPs.
const (
	VIPNobody ID = "vip-nobody"
	VIPTwice  ID = "vip-two-hosts"
	// VIPTwoAddresses: two hosts have it, or one host has two NICs there.
	VIPTwoAddresses ID = "vip-two-addresses"
	VIPLinkDown     ID = "vip-link-down"
)

// {role} is API or ingress, {link} a link of this host.
func holderEntries() []Entry {
	const check = "vip-holder"
	return []Entry{
		{
			ID: VIPNobody, Check: check, Level: Problem, Follows: noPackets(),
			Symptom: "Connections to the VIP end with `No route to host` or time out; every host's state is `Standby`.",
			Says:    "no host on {link} answers for the {role} VIP {vip}",
			Mend:    "look at keepalived on the hosts that may hold it (crictl logs of the keepalived pod; ip address): its health check may fail, or no host is eligible",
		},
		{
			ID: VIPTwice, Check: check, Level: Problem, Follows: noPackets(),
			Symptom: "Some connections to the VIP succeed and others do not; two hosts are `Serving`. It happens when keepalived is killed hard on one of them.",
			Says:    "more than one host has the {role} VIP {vip}: {holders}",
			Mend: "find the host on which keepalived does not run, and take the address away there (ip address delete {vip} dev …) or start keepalived; " +
				"if keepalived runs on both, VRRP does not get through between them: look at the switch and the hosts' firewalls",
		},
		{
			ID: VIPTwoAddresses, Check: check, Level: Warning, Follows: noPackets(),
			Symptom: "`arping` shows two hardware addresses for the VIP.",
			Says: "{holders} answer for the {role} VIP {vip}: two hosts have it, or one host with two NICs in this network does, " +
				"and from here that cannot be told",
			Mend: "run http01-proxyd check on the host that should have it, which knows its own NICs; " +
				"a host with two NICs in one network answers from the right one alone with net.ipv4.conf.all.arp_ignore=1",
		},
		{
			ID: VIPLinkDown, Check: check, Level: Problem,
			Symptom: "The state is `Serving`, and nobody reaches the VIP.",
			Says:    "the {role} VIP {vip} is on {link} of this host, which is down",
			Mend:    "bring the link up; if keepalived does not run here any more, take the address away (ip address delete {vip} dev {link})",
		},
	}
}

// What goes wrong at the API VIP's port 80.
const (
	DoorClosed      ID = "front-door-closed"
	SelfCheckDiffer ID = "self-check-differs"
	SelfCheckFails  ID = "self-check-fails"
	AnswerDiffers   ID = "front-door-answer-differs"
	NameNotAllowed  ID = "name-not-in-hosts"
)

// {door} is address and port of an API VIP, {how} what happens there.
func doorEntries() []Entry {
	const (
		check      = "self-check"
		ownClients = "this host's own connections go through its output chains: look there (nft list ruleset), and at its routing rules (ip rule), for what drops, " +
			"rejects or redirects port 80 of the VIP; pods in the host's network and self checks go the same way"
	)
	return []Entry{
		{
			ID: DoorClosed, Check: check, Level: Problem, Follows: append(NoDoor(), noPackets()...),
			Symptom: "CAs and self checks get no answer, or that of something else, at the API VIP's port 80.",
			Says:    "no front door is at {door}: {how}",
			Mend:    "on the host that holds the VIP: systemctl status http01-proxyd, and http01-proxyd check; else look for a firewall between here and there",
		},
		{
			ID: SelfCheckDiffer, Check: check, Level: Problem, Follows: append(NoDoor(), noPackets()...),
			Symptom: "cert-manager's challenges stay pending with a failing self check on one host, while others, and the CA, get the right answer.",
			Says:    "what this host itself gets at {door} is not what the network gets: {how}; the front door has answered {client} with {status} at {time}",
			Mend:    ownClients,
		},
		{
			ID: SelfCheckFails, Check: check, Level: Problem, Follows: append(NoDoor(), noPackets()...),
			Symptom: "cert-manager's challenges stay pending with a failing self check on the master that holds the VIP, and no CA has asked yet.",
			Says:    "this host itself finds no front door at {door}, although it holds the VIP and the service is ready: {how}; whether others find it is not known, since none has asked for a challenge lately",
			Mend:    "curl -i http://{door}/ on another host, which is to get 400; if it does, " + ownClients,
		},
		{
			ID: AnswerDiffers, Check: check, Level: Problem, Follows: append(NoDoor(), noPackets()...),
			Symptom: "A challenge gets another answer at the API VIP than at the ingress.",
			Says:    "the challenge gets another answer through the front door at {door} ({how}) than straight from {upstream} ({straight})",
			Mend: "run this again, since a route may have changed in between; if it stays so, see which upstream the service has (http01-proxyd status), " +
				"and what redirects port 80 of the VIP on this host (nft list ruleset)",
		},
		{
			ID: NameNotAllowed, Check: check, Level: Problem,
			Symptom: "Challenges for the name get 400 with `Only /.well-known/acme-challenge/* is allowed`.",
			Says:    "the front door at {door} does not answer for {name}",
			Mend:    "add the name to hosts in /etc/http01-proxyd/config.yaml on every master, or remove hosts",
		},
	}
}

// What goes wrong with a name or with the answer to a challenge.
const (
	NameServed     ID = "name-served-already"
	TokenUnknown   ID = "token-unknown"
	AnswerStatus   ID = "answer-status"
	AnswerTrailing ID = "answer-trailing-space"
	AnswerTooLong  ID = "answer-too-long"
	AnswerNotKey   ID = "answer-not-key"
)

// {name} is the name that was asked for, {upstream} address and port of the
// router.
func challengeEntries() []Entry {
	const check = "route"
	return []Entry{
		{
			ID: NameServed, Check: check, Level: Warning,
			Symptom: "A challenge stays pending; the solver's route is not admitted (`HostAlreadyClaimed`).",
			Says:    "{upstream} has an answer ({how}) to a challenge for {name} that nobody has asked for: a route serves this name already",
			Mend: "if that route is of another namespace than cert-manager's challenges, the solver's is refused: " +
				"oc get route -A shows who claims the host",
		},
		{
			ID: TokenUnknown, Check: check, Level: Problem,
			Symptom: "Challenges get 404.",
			Says:    "{upstream} answered 404: what is behind the route does not know this token for {name}",
			Mend: "oc get challenge -A -o yaml shows the pending ones with spec.token and spec.dnsName; if it is pending, an older route or another application has its path, " +
				"or the route leads to another solver",
		},
		{
			ID: AnswerStatus, Check: check, Level: Problem,
			Symptom: "Challenges get another status than 200.",
			Says:    "{upstream} answered {how}, and a CA takes 200 alone",
			Mend:    "look which route of {name} has the path (oc get route -A), and at the solver's pod behind it",
		},
		{
			ID: AnswerTrailing, Check: check, Level: Problem,
			Symptom: "cert-manager's self check never passes, while Let's Encrypt would accept the answer.",
			Says:    "the answer carries more than the key: {what} follows it",
			Mend:    "let the solver's answer be the key alone: a solver of your own, or what rewrites answers on the way, adds it; cert-manager compares byte for byte",
		},
		{
			ID: AnswerTooLong, Check: check, Level: Problem,
			Symptom: "The CA refuses the challenge as too long.",
			Says:    "the answer carries more than the key: it has {bytes} bytes, and CAs read 127",
			Mend:    "let the solver's answer be the key alone: see which application answers for {name}",
		},
		{
			ID: AnswerNotKey, Check: check, Level: Problem,
			Symptom: "The CA refuses the challenge because the key authorisation differs.",
			Says:    "the answer is not the key of this token: it is {what}",
			Mend:    "an application answers instead of the solver: look which route of {name} has the path (oc get route -A)",
		},
	}
}

// What goes wrong with the name in the DNS.
const (
	DNSSilent   ID = "dns-silent"
	DNSAbsent   ID = "dns-absent"
	DNSNoFamily ID = "dns-family-absent"
	// DNSFails: a server does not say what it knows.
	DNSFails     ID = "dns-server-fails"
	DNSElsewhere ID = "dns-elsewhere"
	// DNSElsewhereClosed: from here it cannot be told where it leads.
	DNSElsewhereClosed ID = "dns-elsewhere-unreachable"
	FamilyBroken       ID = "family-broken"
)

// {server} is the DNS server that was asked, {type} A or AAAA.
func dnsEntries() []Entry {
	const check = "dns"
	return []Entry{
		{
			ID: DNSSilent, Check: check, Level: Problem, Follows: append(noPackets(), VIPLinkDown),
			Symptom: "Names do not resolve on this host; self checks fail with `no such host` or time out.",
			Says:    "no DNS server answers: {servers}",
			Mend:    "correct /etc/resolv.conf, or look at these servers and the way to them",
		},
		{
			ID: DNSAbsent, Check: check, Level: Problem,
			Symptom: "The CA says that it finds no address for the name (`NXDOMAIN`, `no valid A or AAAA records`).",
			Says:    "{server} knows no address of {name}",
			Mend:    "make an A or AAAA record for it with the API VIP: {vips}",
		},
		{
			ID: DNSNoFamily, Check: check, Level: Warning,
			Symptom: "Clients of one address family do not find the API.",
			Says:    "{server} has no {type} record for {name}, while the cluster has an API VIP of that family",
			Mend:    "make one with {vips}, or leave it if that family is not to be used: CAs take the other",
		},
		{
			ID: DNSFails, Check: check, Level: Problem, Follows: noPackets(),
			Symptom: "The CA reports `SERVFAIL`, or that its DNS query timed out, for the name.",
			Says:    "{server} {how} when it is asked for the {type} record of {name}",
			Mend: "dig {name} {type} @{server}, and the same at the servers of the zone: a delegation, DNSSEC, or a server or firewall that does not take {type} queries; " +
				"a CA asks for both types, and may refuse the name while one fails",
		},
		{
			ID: DNSElsewhere, Check: check, Level: Problem, Follows: noPackets(),
			Symptom: "The CA asks another host than the API VIP.",
			Says:    "the {type} record of {name} leads to {address}, which is no API VIP and shows no front door ({how})",
			Mend:    "correct the record: {vips}; if {address} forwards to the VIP for those outside only, see that it forwards port 80 too",
		},
		{
			ID: DNSElsewhereClosed, Check: check, Level: Warning, Follows: noPackets(),
			Symptom: "The CA asks another address than the API VIP.",
			Says:    "the {type} record of {name} leads to {address}, which is no API VIP, and cannot be connected to from here ({how})",
			Mend: "if {address} forwards to the VIP for those outside only (NAT without hairpin), all may be well: try curl -v http://{name}/ from outside, which has to show the front door; " +
				"else correct the record: {vips}",
		},
		{
			ID: FamilyBroken, Check: check, Level: Problem, Follows: noPackets(),
			Symptom: "The CA's validation times out or is refused, while it works by hand: it asks IPv6 first, and does not fall back once it is connected.",
			Says:    "{name} has addresses of both families, and {door} does not work ({how}), while {other} does",
			Mend:    "mend the way to {door} (firewalls for that family, routes), or remove its record until it works",
		},
	}
}

// What goes wrong with the certificate that the API server presents.
const (
	APIServerAbsent      ID = "api-server-absent"
	CertificateNoName    ID = "certificate-name-absent"
	CertificateExpired   ID = "certificate-expired"
	CertificateEnds      ID = "certificate-expires-now"
	CertificateEndsSoon  ID = "certificate-expires-soon"
	CertificateEarly     ID = "certificate-not-valid-yet"
	CertificateByAddress ID = "certificate-differs-by-address"
	CertificateByName    ID = "certificate-differs-by-name"
)

// {server} is address and port, {asked} the name that was asked for by SNI.
func certificateEntries() []Entry {
	const check = "certificate"
	return []Entry{
		{
			ID: APIServerAbsent, Check: check, Level: Warning,
			Symptom: "`oc` and all other clients of the API get no connection.",
			Says:    "this host holds the VIP, and shows no certificate at {server}: {error}",
			Mend: "look at the API server on this host (crictl ps -a --name kube-apiserver, crictl logs), and at HAProxy and keepalived beside it: " +
				"where it is down, the VIP is to be on another host",
		},
		{
			ID: CertificateNoName, Check: check, Level: Problem,
			Symptom: "Clients refuse the API's certificate because the name does not match.",
			Says:    "the certificate that {server} presents for {asked} (issued by {issuer}) does not hold that name",
			Mend:    "add the name to the certificate, and see that spec.servingCerts.namedCertificates of apiserver/cluster names it",
		},
		{
			ID: CertificateExpired, Check: check, Level: Problem,
			Symptom: "Clients refuse the API's certificate: it has expired.",
			Says:    "the certificate that {server} presents for {asked} (issued by {issuer}) has expired on {date}",
			Mend:    "log in and renew as " + docurl.CertificateExpired + " says; the other checks say why it was not renewed",
		},
		{
			ID: CertificateEnds, Check: check, Level: Problem,
			Symptom: "A certificate should have been renewed long ago.",
			Says:    "the certificate that {server} presents for {asked} (issued by {issuer}) expires on {date}, in {left}: less than a tenth of its life, or than a day",
			Mend:    "oc describe certificate and oc get challenge -A say where the renewal stands; with a pending challenge, run this with --token",
		},
		{
			ID: CertificateEndsSoon, Check: check, Level: Warning,
			Symptom: "A certificate should have been renewed by now.",
			Says:    "the certificate that {server} presents for {asked} (issued by {issuer}) expires on {date}, in {left}: less than a quarter of its life",
			Mend:    "oc describe certificate says when it is renewed; with a pending challenge, run this with --token",
		},
		{
			ID: CertificateEarly, Check: check, Level: Problem,
			Symptom: "Clients refuse the API's certificate: it is not valid yet.",
			Says:    "the certificate that {server} presents for {asked} (issued by {issuer}) is valid from {date} only",
			Mend:    "look at the clocks of this host and of the issuer",
		},
		{
			ID: CertificateByAddress, Check: check, Level: Warning,
			Symptom: "Whether a client trusts the API depends on the address that it takes.",
			Says:    "for {asked} {server} presents a certificate of {issuer}, and {other} one of {otherIssuer}",
			Mend:    "an API server has not taken up the new certificate: oc get clusteroperator kube-apiserver, and the kube-apiserver pods of the masters",
		},
		{
			ID: CertificateByName, Check: check, Level: Warning,
			Symptom: "Whether a client trusts the API depends on the name that it uses.",
			Says:    "{server} presents a certificate of {issuer} for {asked}, and one of {otherIssuer} for {other}",
			Mend:    "name both in spec.servingCerts.namedCertificates of apiserver/cluster, if both are to have a certificate of the same CA",
		},
	}
}

// What goes wrong on the way to the ingress, and with the clock.
const (
	PathBlackHole ID = "path-black-hole"
	ClockOff      ID = "clock-off"
)

func pathEntries() []Entry {
	return []Entry{{
		ID: PathBlackHole, Check: "mtu", Level: Warning, Follows: noPackets(),
		Symptom: "Small answers come and large ones do not: connections are made, and then hang.",
		Says:    "packets of {mtu} bytes, which {link} takes, do not reach {vip} and nobody says so; small ones do",
		Mend:    "set the same MTU on all links and switch ports on the way, or let ICMP (type 3 code 4; ICMPv6 type 2) through",
	}}
}

func clockEntries() []Entry {
	return []Entry{{
		ID: ClockOff, Check: "clock", Level: Problem,
		Symptom: "Certificates seem expired or not valid yet; tokens and ACME requests are refused.",
		Says:    "this host's clock is {off} {direction} that of {server}",
		Mend:    "look at chrony (chronyc tracking, chronyc sources) on the one that is wrong",
	}}
}
