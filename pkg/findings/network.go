// SPDX-License-Identifier: Apache-2.0

package findings

import "github.com/http01-proxyd/http01-proxyd/internal/docurl"

// Findings about the VIPs.
const (
	VIPLinkDown ID = "vip-link-down"
	// VIPDADFailed and VIPNotAnnounced: only where several hosts hold a VIP at once.
	VIPDADFailed    ID = "vip-dad-failed"
	VIPNotAnnounced ID = "vip-not-announced"
)

// {role} is API or ingress, {link} a link of this host.
func vipHolderEntries() []Entry {
	const check = "vip-holder"
	return []Entry{
		{
			ID: VIPLinkDown, Check: check, Level: Problem,
			Symptom:     "The state is `Serving`, but no client reaches the VIP.",
			Message:     "The {role} VIP {vip} is on {link} of this host, and this link is down",
			Remediation: "Bring the link up. If keepalived no longer runs here, delete the address (ip address delete {vip} dev {link}).",
		},
		{
			ID: VIPDADFailed, Check: check, Level: Problem,
			Symptom: "Some connections to the IPv6 VIP time out. Where BGP announces the VIPs, one host is `Serving` for it and the others on its network are `Standby`.",
			Message: "The {role} VIP {vip} is on {link} of this host, but the kernel does not use it: duplicate address detection has found it on another host. " +
				"BGP may still bring connections here",
			Remediation: "Set vip_skipdad to true in kube-vip's static pod of this VIP, as releases of OpenShift with the BGP fixes do. " +
				"Until then delete the address (ip address delete {vip} dev {link}), so that kube-vip adds it again.",
		},
		{
			ID: VIPNotAnnounced, Check: check, Level: Problem,
			Symptom:     "The state is `Serving` and requests of the nodes succeed, but no client outside the cluster reaches the VIP by this host.",
			Message:     "The {role} VIP {vip} is on this host, but routing table {table}, from which BGP announces it, has no route to it",
			Remediation: "Check the logs of kube-vip (crictl logs of its pod) and ip route show table {table}. kube-vip adds the route again at its next health check, or after a restart.",
		},
	}
}

// Findings at port 80 of an API VIP.
const (
	ProxyUnreachable ID = "proxy-unreachable"
	SelfCheckFails   ID = "self-check-fails"
	NameNotAllowed   ID = "name-not-in-hosts"
	SelfCheckMissing ID = "self-check-missing"
	SelfTestFailed   ID = "self-test-failed"
	// The service on a host that does not hold the VIP finds these with its test requests.
	VIPUnreachableFromHere ID = "vip-unreachable-from-here"
	VIPTestNotSent         ID = "vip-test-not-sent"
	VIPTwoHosts            ID = "vip-two-hosts"
)

// networkPolicyExample permits cert-manager's controller what the operator's default
// network policy denies (openshift/cert-manager-operator, api/operator/v1alpha1).
const networkPolicyExample = `apiVersion: operator.openshift.io/v1alpha1
kind: CertManager
metadata:
  name: cluster
spec:
  networkPolicies:
  - name: http01-self-check
    componentName: CoreController
    egress:
    - to:
      - ipBlock:
          cidr: 192.0.2.5/32
      - ipBlock:
          cidr: 2001:db8::5/128
      ports:
      - protocol: TCP
        port: 80
  - name: acme-ca
    componentName: CoreController
    egress:
    - ports:
      - protocol: TCP
        port: 443
`

// {endpoint} is address and port of an API VIP, {how} the result of a request to it.
func vipPortEntries() []Entry {
	const (
		check        = "self-check"
		localTraffic = "Connections of this host itself pass its output chains. Check these (nft list ruleset) and the routing rules (ip rule) for whatever drops, " +
			"rejects or redirects port 80 of the VIP. Self checks and pods in the host's network use the same path."
	)
	return []Entry{
		{
			ID: ProxyUnreachable, Check: check, Level: Problem,
			CausedBy: localServingFaults(),
			Symptom: "At port 80 of the API VIP, CAs and self checks get no response, or the response of another program. If it is the VIP of one address family only, " +
				"a CA's validation times out or is refused, but succeeds by hand.",
			Message: "http01-proxyd does not respond at {endpoint}: {how}",
			Remediation: "Run systemctl status http01-proxyd and http01-proxyd check on the host that holds the VIP. If both are fine, look for a firewall between that host and this one. " +
				"If no host holds it, check keepalived, or kube-vip where BGP announces the VIPs. " +
				"If the VIP of the other address family works, remove this one from the DNS meanwhile: CAs try IPv6 first and do not fall back once they are connected.",
		},
		{
			ID: SelfCheckFails, Check: check, Level: Problem, CausedBy: localServingFaults(),
			Symptom:     "On the host that holds the VIP, cert-manager's self check fails and challenges stay pending. Other hosts and the CA may get the right response.",
			Message:     "This host holds the VIP and the service is ready, but it does not reach the proxy at {endpoint}: {how}",
			Remediation: "Run curl -i http://{endpoint}/ on another host. If it returns 400, the fault is on this host. " + localTraffic,
		},
		{
			ID: NameNotAllowed, Check: check, Level: Problem,
			Symptom: "Challenges for the name get 400 with `Only /.well-known/acme-challenge/* is allowed`. Without `hosts`, only the API's own name is accepted. " +
				"A warning is about a name in the files of the host that `hosts` lacks, or about a challenge of the last hour.",
			Message: "The proxy at {endpoint} does not accept challenges for {name}",
			Remediation: "If clients use this name for the API, set this line in the configuration of every control-plane node: {line}. " +
				"On OpenShift, render and apply the MachineConfigs again; do not edit the file on a node. " +
				"http01-proxyd status shows the accepted names and their source.",
		},
		{
			ID: SelfCheckMissing, Check: check, Level: Problem, CausedBy: []ID{
				NoProxyLacksAPI, ProxyUnreachable,
				DNSNoServer, DNSNoRecord, DNSServerFails, DNSOtherAddress,
			},
			Symptom: "A challenge stays pending and `check` without `--token` finds nothing. The journal has no request of cert-manager for the challenge. " +
				"A usual cause is `defaultNetworkPolicy: \"true\"` of the CertManager.",
			Message: "The challenge {token}… is served at {vip}, but cert-manager has sent no request for it within {time}",
			Remediation: "Run oc get certmanager cluster -o yaml. With defaultNetworkPolicy: \"true\", cert-manager reaches neither the VIP nor the CA: " +
				"add entries to spec.networkPolicies that permit TCP port 80 of {vip} and port 443 of the CA. http01-proxyd explain self-check-missing prints an example. " +
				"Otherwise oc describe challenge -A shows the error of the self check.",
			Example: networkPolicyExample,
		},
		{
			ID: SelfTestFailed, Check: check, Level: Warning,
			Symptom: "The alert `HTTP01SelfTestFailing` fires, or the journal has an entry `EVENT=self-test-failed`. No challenge is pending, and `check` may find no other fault.",
			Message: "The last self-test of {endpoint}, at {time}, failed with the finding {cause}: {error}",
			Remediation: "If check prints no other fault, it was temporary: the service repeats a failed self-test within minutes, and http01-proxyd status shows the result. " +
				"Otherwise http01-proxyd explain {cause} prints the remediation.",
		},
		{
			ID: VIPUnreachableFromHere, Check: check, Level: Problem,
			Symptom: "A host that does not hold the VIP has requested its port 80 three times in a row without an answer of http01-proxyd. The state of the holder can be `Serving`: it tests the VIP from itself only.",
			Message: "Port 80 of the API VIP {vip} cannot be reached from this host: {how}",
			Remediation: "Run oc http01 check, or http01-proxyd check on this host and http01-proxyd trace on the host that holds the VIP. " +
				"Typical causes are a firewall on that host that blocks port 80 or 8888, a second host with the VIP, a wrong route, and a holder without the service.",
		},
		{
			ID: VIPTestNotSent, Check: check, Level: Warning,
			Symptom: "A host that does not hold the VIP cannot test its port 80. Challenges are not affected while another host holds the VIP.",
			Message: "The rules or routes of this host block its test requests to port 80 of the API VIP {vip}",
			Remediation: "Check the output, postrouting and egress chains of this host (nft list ruleset) and its route to the VIP (ip route get {vip}). " +
				"If that is intended, set vips.testInterval: 0s on this host.",
		},
		{
			ID: VIPTwoHosts, Check: check, Level: Problem,
			Symptom: "Some connections to the VIP succeed and others fail. Two hosts are `Serving`, and a third one gets responses of both.",
			Message: "Two hosts answer at port 80 of the API VIP {vip} at the same time",
			Remediation: "Run oc http01 status, which shows the hosts that hold the VIP. Find the one without a running keepalived. Start keepalived there, or delete the address: ip -br address shows its LINK, ip address delete {vip} dev LINK deletes it. " +
				"If keepalived runs on both, VRRP packets are lost between them: check the switch and the hosts' firewalls.",
		},
	}
}

// Findings about a name or the response to a challenge.
const (
	NameAlreadyServed ID = "name-already-served"
	TokenUnknown      ID = "token-unknown"
	ResponseStatus    ID = "response-status"
	ResponseNotKey    ID = "response-not-key"
)

// {name} is the name of the challenge, {upstream} address and port of the router.
func challengeEntries() []Entry {
	const check = "route"
	return []Entry{
		{
			ID: NameAlreadyServed, Check: check, Level: Warning,
			Symptom: "A challenge stays pending, and the solver's route is not admitted (`HostAlreadyClaimed`).",
			Message: "A route serves {name} already: {upstream} responds ({how}) to a challenge that does not exist",
			Remediation: "Find the route that claims the host (oc get route -A). " +
				"If it is in another namespace than cert-manager's challenges, the router rejects the solver's route.",
		},
		{
			ID: TokenUnknown, Check: check, Level: Problem,
			Symptom: "Challenges get 404.",
			Message: "{upstream} answered 404: the back end of the route does not know this token for {name}",
			Remediation: "Run oc get challenge -A -o yaml, which lists pending challenges with spec.token and spec.dnsName. If this one is pending, an older route or another application serves its path, " +
				"or the route leads to another solver.",
		},
		{
			ID: ResponseStatus, Check: check, Level: Problem,
			Symptom:     "Challenges get another status than 200.",
			Message:     "{upstream} answered {how}, but CAs accept only 200",
			Remediation: "Find the route of {name} that serves the path (oc get route -A), and check the solver's pod behind it.",
		},
		{
			ID: ResponseNotKey, Check: check, Level: Problem,
			Symptom: "The CA rejects the challenge because the key authorisation differs or the response is too long. " +
				"If only white space follows the key, cert-manager's self check never passes, although Let's Encrypt would accept the response.",
			Message: "The response is not the key of this token. It is {what}",
			Remediation: "Make the solver return only the key, because cert-manager compares all bytes. If another application responds instead of the solver, " +
				"find the route of {name} that serves the path (oc get route -A). A custom solver, or a program that rewrites responses, can add the rest.",
		},
	}
}

// Findings about the name in the DNS.
const (
	DNSNoServer      ID = "dns-no-server"
	DNSNoRecord      ID = "dns-no-record"
	DNSFamilyMissing ID = "dns-family-missing"
	// DNSServerFails: a server returns an error or nothing.
	DNSServerFails  ID = "dns-server-fails"
	DNSOtherAddress ID = "dns-other-address"
)

// {server} is the DNS server, {type} A or AAAA.
func dnsEntries() []Entry {
	const check = "dns"
	return []Entry{
		{
			ID: DNSNoServer, Check: check, Level: Problem, CausedBy: []ID{VIPLinkDown},
			Symptom:     "Names do not resolve on this host. Self checks fail with `no such host` or time out.",
			Message:     "No DNS server responds: {servers}",
			Remediation: "Correct /etc/resolv.conf, or check these servers and the network path to them.",
		},
		{
			ID: DNSNoRecord, Check: check, Level: Problem,
			Symptom:     "The CA reports that the name has no address (`NXDOMAIN`, `no valid A or AAAA records`).",
			Message:     "{server} has no address of {name}",
			Remediation: "Create an A or AAAA record for it with the API VIP: {vips}.",
		},
		{
			ID: DNSFamilyMissing, Check: check, Level: Warning,
			Symptom:     "Clients of one address family do not find the API.",
			Message:     "{server} has no {type} record for {name}, although the cluster has an API VIP of that family",
			Remediation: "Create a record with {vips}. If that family is not to be used, no action is necessary, because CAs use the other one.",
		},
		{
			ID: DNSServerFails, Check: check, Level: Problem,
			Symptom: "The CA reports `SERVFAIL` or a timed-out DNS query for the name.",
			Message: "{server} {how} to a query for the {type} record of {name}",
			Remediation: "Run dig {name} {type} @{server}, and the same at the servers of the zone. The cause may be a delegation, DNSSEC, or a server or firewall that rejects {type} queries. " +
				"A CA queries both types, and may reject the name while one fails.",
		},
		{
			ID: DNSOtherAddress, Check: check, Level: Problem,
			Symptom: "The CA connects to another host than the API VIP.",
			Message: "The {type} record of {name} is {address}, which is not an API VIP, and http01-proxyd does not respond there ({how})",
			Remediation: "Correct the record: {vips}. If {address} forwards to the VIP for external clients only (NAT without hairpin), make sure that it forwards port 80 too: " +
				"curl -v http://{name}/ from outside must return the 400 of http01-proxyd.",
		},
	}
}

// Findings about the certificate of the API server.
const (
	APIServerUnreachable        ID = "api-server-unreachable"
	CertificateNameMissing      ID = "certificate-name-missing"
	CertificateExpired          ID = "certificate-expired"
	CertificateExpiryUrgent     ID = "certificate-expiry-urgent"
	CertificateExpiresSoon      ID = "certificate-expires-soon"
	RenewalAttemptFailed        ID = "renewal-attempt-failed"
	CertificateNotYetValid      ID = "certificate-not-yet-valid"
	CertificateDiffersByAddress ID = "certificate-differs-by-address"
	// CertificateInternalName: a certificate of an external name is also valid for the
	// internal one.
	CertificateInternalName ID = "certificate-internal-name"
	// CertificateReplacesInternal: nodes get a certificate that they do not trust.
	CertificateReplacesInternal ID = "certificate-replaces-internal"
)

// {server} is address and port, {requested} the name in SNI, {internal} the name that the
// nodes use. {renewal} begins with a separator, and is empty if cert-manager renews another
// certificate.
func certificateEntries() []Entry {
	const (
		check    = "certificate"
		renew    = "After the fix run cmctl renew, because cert-manager waits up to 32 h between its own attempts."
		internal = "Remove {internal} from names in spec.servingCerts.namedCertificates of apiserver/cluster, and from dnsNames of the Certificate. "
	)
	return []Entry{
		{
			ID: APIServerUnreachable, Check: check, Level: Warning,
			Symptom: "`oc` and all other clients of the API cannot connect.",
			Message: "This host holds the VIP, but {server} presents no certificate: {error}",
			Remediation: "Check the API server on this host (crictl ps -a --name kube-apiserver, crictl logs), and HAProxy and keepalived beside it. " +
				"If the API server is down, keepalived must move the VIP to another host.",
		},
		{
			ID: CertificateNameMissing, Check: check, Level: Problem,
			Symptom:     "Clients reject the API's certificate because the name does not match.",
			Message:     "The certificate that {server} presents for {requested} (issued by {issuer}) does not contain that name",
			Remediation: "Add the name to the certificate. Check that spec.servingCerts.namedCertificates of apiserver/cluster lists it.",
		},
		{
			ID: CertificateExpired, Check: check, Level: Problem,
			Symptom: "Clients reject the API's certificate because it has expired.",
			Message: "The certificate that {server} presents for {requested} (issued by {issuer}) expired on {date}",
			Remediation: "Log in and renew it as described in " + docurl.CertificateExpired +
				". The other checks show why it was not renewed.",
		},
		{
			ID: CertificateExpiryUrgent, Check: check, Level: Problem,
			Symptom:     "A certificate should have been renewed long ago.",
			Message:     "The certificate that {server} presents for {requested} (issued by {issuer}) expires on {date}, in {left}. Less than a tenth of its lifetime, or less than a day, is left{renewal}",
			Remediation: "Run oc describe certificate and oc get challenge -A to see the state of the renewal. If a challenge is pending, run this check with --token. " + renew,
		},
		{
			ID: CertificateExpiresSoon, Check: check, Level: Warning,
			Symptom:     "A certificate should have been renewed by now.",
			Message:     "The certificate that {server} presents for {requested} (issued by {issuer}) expires on {date}, in {left}. Less than a quarter of its lifetime is left{renewal}",
			Remediation: "Run oc describe certificate to see when it is renewed. If a challenge is pending, run this check with --token. " + renew,
		},
		{
			ID: RenewalAttemptFailed, Check: check, Level: Warning,
			Symptom:     "The certificate is not renewed although cert-manager tries it. The journal has `EVENT=renewal-failed`.",
			Message:     "The certificate that {server} presents for {requested} (issued by {issuer}) was not renewed by an attempt at {time}. It expires on {date}, in {left}{renewal}",
			Remediation: "The other checks, CAUSE in journalctl -u http01-proxyd, and oc describe challenge -A show the cause. If a challenge is pending, run this check with --token. " + renew,
		},
		{
			ID: CertificateNotYetValid, Check: check, Level: Problem,
			Symptom:     "Clients reject the API's certificate because it is not valid yet.",
			Message:     "The certificate that {server} presents for {requested} (issued by {issuer}) is not valid before {date}",
			Remediation: "Check the clocks of this host and of the issuer.",
		},
		{
			ID: CertificateDiffersByAddress, Check: check, Level: Warning,
			Symptom:     "Some addresses of the API present a certificate that clients trust, others do not.",
			Message:     "For {requested}, {server} presents a certificate of {issuer}, and {other} one of {otherIssuer}",
			Remediation: "An API server has not loaded the new certificate. Check oc get clusteroperator kube-apiserver and the kube-apiserver pods of the control-plane nodes.",
		},
		{
			ID: CertificateReplacesInternal, Check: check, Level: Problem,
			Symptom:     "Nodes are `NotReady`, and kubelets log `x509: certificate signed by unknown authority`, after a certificate was added to namedCertificates.",
			Message:     "{server} presents for {internal} the certificate of {requested} (issued by {issuer}). The nodes reach the API by that name, and trust only the cluster's own CA for it",
			Remediation: internal + "If the API is out of reach, log in to a control-plane node as described in " + docurl.CertificateExpired + ".",
		},
		{
			ID: CertificateInternalName, Check: check, Level: Warning,
			Symptom:     "A certificate of a public CA for the API is also valid for `api-int.<cluster>`.",
			Message:     "The certificate that {server} presents for {requested} (issued by {issuer}) is also valid for {internal}. The nodes reach the API by that name, and trust only the cluster's own CA for it",
			Remediation: internal + "See " + docurl.InternalName + ".",
		},
	}
}

// Findings about the network path to the ingress, and the clock.
const (
	PathMTUBlackHole ID = "path-mtu-black-hole"
	ClockOffset      ID = "clock-offset"
)

func mtuEntries() []Entry {
	return []Entry{{
		ID: PathMTUBlackHole, Check: "mtu", Level: Warning,
		Symptom:     "Small responses arrive and large ones do not. Connections are established and then hang.",
		Message:     "Packets of {mtu} bytes, the MTU of {link}, do not reach {vip}, and no ICMP error comes back. Small packets do reach it",
		Remediation: "Set the same MTU on all links and switch ports of the path, or allow ICMP (type 3 code 4; ICMPv6 type 2).",
	}}
}

func clockEntries() []Entry {
	return []Entry{{
		ID: ClockOffset, Check: "clock", Level: Problem,
		Symptom:     "Certificates seem expired or not valid yet. Tokens and ACME requests are rejected.",
		Message:     "This host's clock is {off} {direction} that of {server}",
		Remediation: "Check chrony (chronyc tracking, chronyc sources) on the host whose clock is wrong.",
	}}
}
