// SPDX-License-Identifier: Apache-2.0

package findings

// What goes wrong at an egress proxy through which the ingress is reached
// (egressProxy.upstream: auto).
const (
	EgressUnreachable ID = "egress-unreachable"
	EgressTLS         ID = "egress-tls"
	EgressAuth        ID = "egress-auth"
	EgressDenied      ID = "egress-denied"
	EgressLoop        ID = "egress-loops"
)

// egressEntries are found at the way to the ingress VIP. {proxy} is name and port
// of the proxy, never with credentials, {upstream} address and port of the router,
// {error} what the system or the proxy said.
func egressEntries() []Entry {
	const (
		check    = "ingress"
		asked    = "Challenges get 502 or 504 with `the egress proxy could not be asked`."
		refused  = "Challenges get 502 with `the egress proxy did not let the request through`."
		directly = "; an ingress that this host reaches directly belongs in noProxy, and with egressProxy.upstream: never none is asked for through the proxy"
	)
	return []Entry{
		{
			ID: EgressUnreachable, Cause: "egress-unreachable", Check: check, Level: Problem, CausedBy: packetLossCauses(),
			Reply:       "the egress proxy could not be asked",
			Symptom:     asked,
			Message:     "the egress proxy {proxy}, through which {upstream} is reached, does not serve ({error})",
			Remediation: "check that the proxy runs, that httpProxy and httpsProxy name its address, port and scheme, and this host's routes and firewall towards it" + directly,
		},
		{
			ID: EgressTLS, Cause: "egress-tls", Check: check, Level: Problem,
			Reply:   "the egress proxy could not be asked",
			Symptom: asked,
			Message: "TLS to the egress proxy {proxy} itself fails: {error}",
			Remediation: "let egressProxy.trustedCA have the CA of the proxy's own certificate, and let the proxy's URL have a name that this is for; " +
				"if the proxy is spoken to without TLS, its URL begins with http://, also for httpsProxy",
		},
		{
			ID: EgressAuth, Cause: "egress-auth", Check: check, Level: Problem,
			Reply:       "the egress proxy did not let the request through",
			Symptom:     refused,
			Message:     "the egress proxy {proxy} does not take the credentials, or that there are none, for {upstream}: {error}",
			Remediation: "correct user and password in the proxy's URL (spec.httpProxy and spec.httpsProxy of proxy/cluster, or egressProxy in /etc/http01-proxyd/config.yaml), each %-encoded; Basic is the scheme that is spoken",
		},
		{
			ID: EgressDenied, Cause: "egress-denied", Check: check, Level: Problem,
			Reply:   "the egress proxy did not let the request through",
			Symptom: refused,
			Message: "the egress proxy {proxy} does not lead to {upstream}: {error}",
			Remediation: "see the proxy's log: let its rules allow this host what it asks for (CONNECT to the ingress VIP with https, the API's name in plain HTTP), " +
				"and see that it reaches the ingress; an ingress that names an error in Proxy-Status or X-Squid-Error is taken for the proxy: let it leave these out" + directly,
		},
		{
			ID: EgressLoop, Cause: "egress-loop", Check: check, Level: Problem,
			Symptom:     "Challenges get 502; the journal says that they came back to the API VIP through the egress proxy.",
			Message:     "the egress proxy {proxy} led the challenge back to the API VIP: in plain HTTP it looks the API's name up by itself, and finds the API VIP there",
			Remediation: "set upstream.scheme: https, with which it is told the ingress VIP, or let the proxy's DNS give the ingress VIP for the API's name" + directly,
		},
	}
}

// ViaEgressProxy is the finding where the ingress was asked through an egress proxy,
// which may have answered in its place.
func (f Finding) ViaEgressProxy() Finding {
	if f.ID == IngressTLSUntrusted {
		f.Remediation += "; or, if the egress proxy looks into TLS (as Squid does with ssl-bump), let egressProxy.trustedCA have the CA that it issues certificates by"
	}
	return f
}
