// SPDX-License-Identifier: Apache-2.0

package findings

// Findings at an egress proxy through which the ingress is reached
// (egressProxy.upstream: auto).
const (
	EgressUnreachable ID = "egress-unreachable"
	EgressTLS         ID = "egress-tls"
	EgressAuth        ID = "egress-auth"
	EgressDenied      ID = "egress-denied"
	EgressLoop        ID = "egress-loop"
)

// egressEntries are detected on the upstream route to the ingress VIP. {proxy} is
// name and port of the egress proxy, never with credentials, {upstream} address and
// port of the router, {error} the reason that the system or the egress proxy gave.
func egressEntries() []Entry {
	const (
		check         = "ingress"
		unavailable   = "Challenges get 502 or 504 with `the egress proxy is not available`."
		rejected      = "Challenges get 502 with `the egress proxy rejected the request`."
		directIngress = " To reach the ingress directly, add it to noProxy, or set egressProxy.upstream: never."
		askProxy      = "http01-proxyd check --only ingress"
	)
	return []Entry{
		{
			ID: EgressUnreachable, Exchange: true, Check: check, Level: Problem, CausedBy: []ID{VIPLinkDown},
			Reply:   "the egress proxy is not available",
			Symptom: unavailable,
			Message: "The egress proxy {proxy}, through which {upstream} is reached, is not available ({error})",
			Remediation: "Check the egress proxy, its URL in httpProxy and httpsProxy, " +
				"and this host's routes and firewall towards it." + directIngress,
			Commands: []string{showProxy, "cat /etc/mco/proxy.env", askProxy},
		},
		{
			ID: EgressTLS, Exchange: true, Check: check, Level: Problem,
			Reply:   "the egress proxy is not available",
			Symptom: unavailable,
			Message: "TLS to the egress proxy {proxy} fails: {error}",
			Remediation: "Add the CA of the egress proxy's own certificate to egressProxy.trustedCA, and use a name of that certificate in the proxy's URL. " +
				"If the egress proxy expects plain HTTP, begin its URL with http://, also in httpsProxy.",
			Commands: []string{showProxy, askProxy},
		},
		{
			ID: EgressAuth, Exchange: true, Check: check, Level: Problem,
			Reply:   "the egress proxy rejected the request",
			Symptom: rejected,
			Message: "The egress proxy {proxy} rejects the credentials for {upstream}, or requires some: {error}",
			Remediation: "Correct user and password, each %-encoded, in spec.httpProxy and spec.httpsProxy of proxy/cluster, " +
				"or in egressProxy of /etc/http01-proxyd/config.yaml. Only the scheme Basic is supported.",
			Commands: []string{showProxy, askProxy},
		},
		{
			ID: EgressDenied, Exchange: true, Check: check, Level: Problem,
			Reply:   "the egress proxy rejected the request",
			Symptom: rejected,
			Message: "The egress proxy {proxy} does not forward to {upstream}: {error}",
			Remediation: "See the egress proxy's log. The proxy must allow this host's requests (CONNECT to the ingress VIP with https, the API's name in plain HTTP), " +
				"and reach the ingress. The ingress itself must not set an error in Proxy-Status or X-Squid-Error." + directIngress,
			Commands: []string{showProxy, askProxy},
		},
		{
			ID: EgressLoop, Exchange: true, Check: check, Level: Problem,
			Symptom: "Challenges get 502, and the journal reports that they came back to the API VIP through the egress proxy.",
			Message: "The egress proxy {proxy} forwarded the challenge back to the API VIP. In plain HTTP, it resolves the API's name itself and gets the API VIP",
			Remediation: "Set upstream.scheme: https, so that the egress proxy connects to the ingress VIP. " +
				"Or let the egress proxy's DNS resolve the API's name to the ingress VIP." + directIngress,
			Commands: []string{showProxy, askProxy},
		},
	}
}

// ViaEgressProxy is the finding for an ingress that was reached through an egress
// proxy. The egress proxy may have responded instead of the ingress.
func (f Finding) ViaEgressProxy() Finding {
	if f.ID == IngressTLSUntrusted {
		f.Remediation += " If the egress proxy intercepts TLS (like Squid with ssl-bump), add the CA that it issues certificates with to egressProxy.trustedCA."
	}
	return f
}
