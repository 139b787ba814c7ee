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
			Remediation: "Bring the link up. If neither keepalived nor kube-vip runs here, the last command deletes the address.",
			Commands:    []string{"ip link show {link}", "ip link set {link} up", deleteLeftVIP},
		},
		{
			ID: VIPDADFailed, Check: check, Level: Problem,
			Symptom: "Some connections to the IPv6 VIP time out. Where BGP announces the VIPs, one host is `Serving` for it and the others on its network are `Standby`.",
			Message: "The {role} VIP {vip} is on {link} of this host, but the kernel does not use it: duplicate address detection has found it on another host. " +
				"BGP may still bring connections here",
			Remediation: "Set vip_skipdad to true in kube-vip's static pod of this VIP, as newer OpenShift does. " +
				"Until then, delete the address: kube-vip adds it again.",
			Commands: []string{deleteVIP},
		},
		{
			ID: VIPNotAnnounced, Check: check, Level: Problem,
			Symptom:     "The state is `Serving` and requests of the nodes succeed, but no client outside the cluster reaches the VIP by this host.",
			Message:     "The {role} VIP {vip} is on this host, but routing table {table}, from which BGP announces it, contains no route to it",
			Remediation: "Check the log of kube-vip. It adds the route at its next health check, or after a restart.",
			Commands:    []string{"ip route show table {table}", "ip -6 route show table {table}", "crictl logs --tail=20 \"$(crictl ps -aq --name kube-vip | head -n1)\""},
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
		check   = "self-check"
		request = "curl -sSi --max-time 5 http://{endpoint}/"
		ruleset = "nft list ruleset"
	)
	return []Entry{
		{
			ID: ProxyUnreachable, Check: check, Level: Problem,
			CausedBy: localServingFaults(),
			Symptom: "At port 80 of the API VIP, CAs and self checks get no response, or the response of another program. If only one address family fails, " +
				"a CA's validation times out or is refused, but succeeds by hand.",
			Message: "http01-proxyd does not respond at {endpoint}: {how}",
			Remediation: "Check the holder of the VIP, then the firewalls between the two hosts. If no host holds it, " +
				"check keepalived, or kube-vip with BGP. If the VIP of the other address family works, " +
				"remove this one from the DNS meanwhile: CAs try IPv6 first, and fall back only if they " +
				"cannot connect.",
			Commands: []string{request, "oc http01 status", "oc http01 check"},
		},
		{
			ID: SelfCheckFails, Check: check, Level: Problem, CausedBy: localServingFaults(),
			Symptom: "On the host that holds the VIP, cert-manager's self check fails and challenges stay pending. Other hosts and the CA may get the right response.",
			Message: "This host holds the VIP and the service is ready, but it does not reach the proxy at {endpoint}: {how}",
			Remediation: "Run the first command on another host. If it returns 400, an output chain or a routing rule of this host " +
				"drops, rejects or redirects port 80 of the VIP. Pods in the host's network use the same path.",
			Commands: []string{request, ruleset, "ip rule", "ip -6 rule"},
		},
		{
			ID: NameNotAllowed, Check: check, Level: Problem,
			Symptom: "Challenges for the name get 400 with `Only /.well-known/acme-challenge/* is allowed`. Without `hosts`, only the API's own name is accepted. " +
				"A warning is about a name in the host's files, or about a challenge of the last hour.",
			Message: "The proxy at {endpoint} does not accept challenges for {name}",
			Remediation: "If clients use this name for the API, set this line in the configuration of every control-plane node: {line}. " +
				"On OpenShift, render and apply the MachineConfigs again.",
			Commands: []string{"http01-proxyd status -o wide", showChallenge},
		},
		{
			ID: SelfCheckMissing, Check: check, Level: Warning, CausedBy: []ID{
				NoProxyLacksAPI, ProxyUnreachable,
				DNSNoServer, DNSNoRecord, DNSServerFails, DNSSECBogus, DNSOtherAddress,
			},
			Symptom: "A challenge stays pending and `check` without `--token` finds nothing. The journal contains no request of cert-manager for the challenge. " +
				"A usual cause is `defaultNetworkPolicy: \"true\"` of the CertManager.",
			Message: "The challenge {token}… is served at {vip}, but neither cert-manager nor a CA has requested it within {time}",
			Remediation: "If its solver sets waitInsteadOfSelfCheck, cert-manager sends no self check: wait that long for the CA. " +
				"With defaultNetworkPolicy: \"true\", cert-manager reaches neither the VIP nor the CA: permit TCP ports 80 and 443. " +
				"The command does not change entries that exist: add these to them. http01-proxyd explain self-check-missing prints narrower rules. " +
				"Otherwise, the challenge shows the error.",
			Commands: []string{
				"oc get challenge -A -o custom-columns=NAMESPACE:.metadata.namespace,NAME:.metadata.name,WAIT:.spec.solver.waitInsteadOfSelfCheck",
				"oc get certmanager.operator.openshift.io cluster -o jsonpath='{.spec.defaultNetworkPolicy} {.spec.networkPolicies}{\"\\n\"}'",
				`oc get certmanager.operator.openshift.io cluster -o jsonpath='{.spec.networkPolicies}' | grep . || oc patch certmanager.operator.openshift.io cluster --type=merge --patch='{"spec":{"networkPolicies":[{"name":"http01","componentName":"CoreController","egress":[{"ports":[{"protocol":"TCP","port":80},{"protocol":"TCP","port":443}]}]}]}}'`,
				showFailures,
			},
			Example: networkPolicyExample,
		},
		{
			ID: SelfTestFailed, Check: check, Level: Warning,
			Symptom: "The alert `HTTP01SelfTestFailing` fires, or the journal contains `EVENT=self-test-failed`. No challenge is pending, and `check` may find no other fault.",
			Message: "The last self-test of {endpoint}, at {time}, failed with the finding {cause}: {error}",
			Remediation: "If check prints no other fault, it was temporary: the service repeats a failed self-test " +
				"within minutes.",
			Commands: []string{"http01-proxyd check", "http01-proxyd explain {cause}"},
		},
		{
			ID: VIPUnreachableFromHere, Check: check, Level: Problem,
			Symptom: "A host on standby got no answer of http01-proxyd at port 80 of the VIP three times in a row. The holder can still report `Serving`: it tests the VIP from itself only.",
			Message: "Port 80 of the API VIP {vip} cannot be reached from this host: {how}",
			Remediation: "oc http01 check follows the packets. Typical causes: a firewall of the holder that blocks " +
				"port 80 or 8888, a second host with the VIP, a wrong route, or a holder without the " +
				"service.",
			Commands: []string{"oc http01 check", "ip route get {vip}", "ip neighbour show {vip}"},
		},
		{
			ID: VIPTestNotSent, Check: check, Level: Warning,
			Symptom: "A host on standby cannot test port 80 of the VIP. Challenges are not affected.",
			Message: "The rules or routes of this host block its test requests to port 80 of the API VIP {vip}",
			Remediation: "Check the output, postrouting and egress chains of this host, and its route to the VIP. " +
				"If you block them on purpose, set vips.testInterval: 0s on this host.",
			Commands: []string{"ip route get {vip}", ruleset},
		},
		{
			ID: VIPTwoHosts, Check: check, Level: Problem,
			Symptom: "Some connections to the VIP succeed and others fail. Two hosts are `Serving`, and a third one gets responses of both.",
			Message: "Two hosts answer at port 80 of the API VIP {vip} at the same time",
			Remediation: "The first command prints the addresses of one host, by its MAC address. oc http01 status names both, with their commands. " + twoHolders +
				"Otherwise, VRRP packets are lost: permit IP protocol 112 at the switch and in the hosts' firewalls.",
			Commands: []string{
				`mac=$(ip neighbour show {vip} | sed -n 's/.* lladdr \([^ ]*\).*/\1/p'); ip neighbour | grep -iF "${mac:?no neighbour entry}"`,
				"oc http01 status",
			},
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
			Symptom:     "A challenge stays pending, and the solver's route is not admitted (`HostAlreadyClaimed`).",
			Message:     "A route serves {name} already: {upstream} responds ({how}) to a challenge that does not exist",
			Remediation: "Find the route that claims the host. If it is not in the namespace of cert-manager's challenges, the router rejects the solver's route.",
			Commands:    []string{showRoutes, askRouter},
		},
		{
			ID: TokenUnknown, Check: check, Level: Problem,
			Symptom:     "Challenges get 404.",
			Message:     "{upstream} answered 404: the back end of the route does not know this token for {name}",
			Remediation: "If this token is pending, an older route, another application or another solver serves its path.",
			Commands:    []string{showChallenge, showRoutes},
		},
		{
			ID: ResponseStatus, Check: check, Level: Problem,
			Symptom:     "Challenges get another status than 200.",
			Message:     "{upstream} answered {how}, but CAs accept only 200",
			Remediation: "Find the route of {name} that serves the path, and check the solver's pod behind it.",
			Commands:    []string{showRoutes, showSolvers, askRouter},
		},
		{
			ID: ResponseNotKey, Check: check, Level: Problem,
			Symptom: "The CA rejects the challenge because the key authorisation differs or the response is too long. " +
				"Let's Encrypt accepts white space after the key; cert-manager's self check does not.",
			Message: "The response is not the key of this token. It is {what}",
			Remediation: "Let the solver return only the key: cert-manager compares all bytes. If another application responds, " +
				"find its route for {name}. A custom solver, or a program that rewrites responses, can add the rest.",
			Commands: []string{showRoutes, showSolvers, askRouter},
		},
	}
}

// Findings about the name in the DNS.
const (
	DNSNoServer      ID = "dns-no-server"
	DNSNoRecord      ID = "dns-no-record"
	DNSFamilyMissing ID = "dns-family-missing"
	// DNSServerFails: a server returns an error or nothing.
	DNSServerFails ID = "dns-server-fails"
	// DNSSECBogus: a server that validates DNSSEC rejects the name.
	DNSSECBogus     ID = "dnssec-bogus"
	DNSOtherAddress ID = "dns-other-address"
)

// {server} is the DNS server, {type} A or AAAA.
func dnsEntries() []Entry {
	const (
		check = "dns"
		query = "dig {name} {type} @{server}"
	)
	return []Entry{
		{
			ID: DNSNoServer, Check: check, Level: Problem, CausedBy: []ID{VIPLinkDown},
			Symptom:     "Names do not resolve on this host. Self checks fail with `no such host` or time out.",
			Message:     "No DNS server responds: {servers}",
			Remediation: "Correct /etc/resolv.conf, or check these servers and the network path to them.",
			Commands:    []string{"cat /etc/resolv.conf", "ip route get {server}"},
		},
		{
			ID: DNSNoRecord, Check: check, Level: Problem,
			Symptom:     "The CA reports that the name has no address (`NXDOMAIN`, `no valid A or AAAA records`).",
			Message:     "{server} knows no address of {name}",
			Remediation: "Create an A or AAAA record for it with the API VIP: {vips}.",
			Commands:    []string{"dig {name} A @{server}", "dig {name} AAAA @{server}"},
		},
		{
			ID: DNSFamilyMissing, Check: check, Level: Warning,
			Symptom:     "Clients of one address family do not find the API.",
			Message:     "{server} has no {type} record for {name}, although the cluster has an API VIP of that family",
			Remediation: "Create a record with {vips}. If you do not use that family, you do not need to do anything: CAs use the other one.",
			Commands:    []string{query},
		},
		{
			ID: DNSServerFails, Check: check, Level: Problem,
			Symptom: "The CA reports `SERVFAIL` or a timed-out DNS query for the name.",
			Message: "{server} {how} to a query for the {type} record of {name}",
			Remediation: "Query this server and the servers of the zone. The cause may be a delegation, DNSSEC, or a server " +
				"or firewall that rejects {type} queries. A CA may reject the name meanwhile.",
			Commands: []string{query, "dig +trace {name} {type}"},
		},
		{
			ID: DNSSECBogus, Check: check, Level: Problem,
			Symptom: "The CA reports `SERVFAIL` or a DNSSEC error for the name. Every public CA validates DNSSEC, and so do many DNS servers.",
			Message: "{server} rejects the {type} record of {name}, because its DNSSEC signatures are not valid; without validation, it answers",
			Remediation: "The first command names the fault. Usually, the signatures have expired, or the DS record at the registrar " +
				"belongs to an older key: sign the zone again, or correct or remove the DS record. The second command returns the record without validation.",
			Commands: []string{"delv {name} {type} @{server}", "dig +cd {name} {type} @{server}"},
		},
		{
			ID: DNSOtherAddress, Check: check, Level: Problem,
			Symptom: "The CA connects to another host than the API VIP.",
			Message: "The {type} record of {name} is {address}, which is not an API VIP, and http01-proxyd does not respond there ({how})",
			Remediation: "Correct the record: {vips}. If {address} forwards to the VIP for external clients only (NAT without hairpin), let it forward port 80 too: " +
				"from outside, curl must get a 400. Then only cert-manager's self check fails: cert-manager 1.21 omits it for solvers with waitInsteadOfSelfCheck.",
			Commands: []string{query, "curl -sSi --max-time 5 http://{name}/"},
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
		renew    = "After the fix, request a new certificate: otherwise, with its defaults, cert-manager waits up to 32 h."
		token    = " Trace a pending challenge with --token. "
		internal = "Remove {internal} from names in spec.servingCerts.namedCertificates of apiserver/cluster, and from dnsNames of the Certificate. "
		apiPods  = "crictl ps -a --name kube-apiserver"
	)
	renewal := []string{showRenewal, showFailures, renewNow}
	return []Entry{
		{
			ID: APIServerUnreachable, Check: check, Level: Warning,
			Symptom: "`oc` and all other clients of the API cannot connect.",
			Message: "This host holds the VIP, but {server} presents no certificate: {error}",
			Remediation: "Check the API server on this host, and HAProxy and keepalived beside it. " +
				"If the API server is down, keepalived must move the VIP to another host.",
			Commands: []string{apiPods, "crictl ps -a --name haproxy", "crictl ps -a --name keepalived"},
		},
		{
			ID: CertificateNameMissing, Check: check, Level: Problem,
			Symptom:     "Clients reject the API's certificate because the name does not match.",
			Message:     "The certificate that {server} presents for {requested} (issued by {issuer}) does not contain that name",
			Remediation: "Add the name to the certificate, and to spec.servingCerts.namedCertificates of apiserver/cluster.",
			Commands:    []string{showNamed, "oc get certificate -A -o custom-columns=NAMESPACE:.metadata.namespace,NAME:.metadata.name,NAMES:.spec.dnsNames,SECRET:.spec.secretName"},
		},
		{
			ID: CertificateExpired, Check: check, Level: Problem,
			Symptom: "Clients reject the API's certificate because it has expired.",
			Message: "The certificate that {server} presents for {requested} (issued by {issuer}) expired on {date}",
			Remediation: "Log in as described in " + docurl.CertificateExpired +
				". The other checks show why it was not renewed. " + renew,
			Commands: renewal,
		},
		{
			ID: CertificateExpiryUrgent, Check: check, Level: Problem,
			Symptom:     "With cert-manager's defaults, a certificate should have been renewed long ago.",
			Message:     "The certificate that {server} presents for {requested} (issued by {issuer}) expires on {date}, in {left}. Less than a tenth of its lifetime, or less than a day, is left{renewal}",
			Remediation: "The objects of cert-manager show why it was not renewed." + token + renew,
			Commands:    renewal,
		},
		{
			ID: CertificateExpiresSoon, Check: check, Level: Warning,
			Symptom:     "With cert-manager's defaults, a certificate should have been renewed by now.",
			Message:     "The certificate that {server} presents for {requested} (issued by {issuer}) expires on {date}, in {left}. Less than a quarter of its lifetime is left{renewal}",
			Remediation: "The objects of cert-manager show when it is renewed." + token + renew,
			Commands:    renewal,
		},
		{
			ID: RenewalAttemptFailed, Check: check, Level: Warning,
			Symptom:     "cert-manager tries to renew the certificate, but fails. The journal contains `EVENT=renewal-failed`.",
			Message:     "The certificate that {server} presents for {requested} (issued by {issuer}) was not renewed by an attempt at {time}. It expires on {date}, in {left}{renewal}",
			Remediation: "The other checks, CAUSE in the journal and the challenge show why." + token + renew,
			Commands:    renewal,
		},
		{
			ID: CertificateNotYetValid, Check: check, Level: Problem,
			Symptom:     "Clients reject the API's certificate because it is not valid yet.",
			Message:     "The certificate that {server} presents for {requested} (issued by {issuer}) is not valid before {date}",
			Remediation: "Check the clocks of this host and of the issuer.",
			Commands:    []string{"date --utc", "chronyc tracking"},
		},
		{
			ID: CertificateDiffersByAddress, Check: check, Level: Warning,
			Symptom:     "Some addresses of the API present a certificate that clients trust, others do not.",
			Message:     "For {requested}, {server} presents a certificate of {issuer}, and {other} one of {otherIssuer}",
			Remediation: "An API server has not loaded the new certificate.",
			Commands:    []string{"oc get clusteroperator kube-apiserver", "oc get pod -n openshift-kube-apiserver -l apiserver=true -o wide"},
		},
		{
			ID: CertificateReplacesInternal, Check: check, Level: Problem,
			Symptom:     "Nodes are `NotReady`, and kubelets log `x509: certificate signed by unknown authority`, after a certificate was added to namedCertificates.",
			Message:     "{server} presents for {internal} the certificate of {requested} (issued by {issuer}). The nodes use that name, and trust only the cluster's own CA for it",
			Remediation: internal + "If you cannot reach the API, log in to a control-plane node as described in " + docurl.CertificateExpired + ".",
			Commands:    []string{showNamed, "oc edit apiserver cluster"},
		},
		{
			ID: CertificateInternalName, Check: check, Level: Warning,
			Symptom:     "A certificate of a public CA for the API is also valid for `api-int.<cluster>`.",
			Message:     "The certificate that {server} presents for {requested} (issued by {issuer}) is also valid for {internal}. The nodes use that name, and trust only the cluster's own CA for it",
			Remediation: internal + "See " + docurl.InternalName + ".",
			Commands:    []string{showNamed},
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
		Commands:    []string{"ip link show {link}", "tracepath -n {vip}"},
	}}
}

func clockEntries() []Entry {
	return []Entry{{
		ID: ClockOffset, Check: "clock", Level: Problem,
		Symptom:     "Certificates seem expired or not valid yet. Tokens and ACME requests are rejected.",
		Message:     "This host's clock is {off} {direction} the clock of {server}",
		Remediation: "Check chrony on the host whose clock is wrong. The last command corrects the clock at once.",
		Commands:    []string{"chronyc tracking", "chronyc sources", "chronyc makestep"},
	}}
}
