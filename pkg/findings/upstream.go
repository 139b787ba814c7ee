// SPDX-License-Identifier: Apache-2.0

package findings

// What goes wrong between this host and the solver: at the ingress VIP, at the
// router, and with the answer.
const (
	IngressNoAddress        ID = "ingress-unknown"
	IngressRefused          ID = "ingress-refused"
	IngressTimeout          ID = "ingress-timeout"
	IngressUnreachable      ID = "ingress-unreachable"
	IngressClosedConnection ID = "ingress-closed"
	IngressResetConnection  ID = "ingress-reset"
	IngressNoResponse       ID = "ingress-silent"
	IngressTLSUntrusted     ID = "ingress-tls-untrusted"
	IngressTLSName          ID = "ingress-tls-name"
	IngressTLSExpired       ID = "ingress-tls-expired"
	IngressTLSHandshake     ID = "ingress-tls-handshake"
	IngressPROXYProtocol    ID = "ingress-proxy-protocol"
	LocalResources          ID = "local-resources"
	ExchangeStopped         ID = "exchange-stopped"
	RouteMissing            ID = "route-none"
	RouteLoop               ID = "route-loops"
	RouteRedirectsHTTPS     ID = "route-redirects-https"
	RouteRedirectLoop       ID = "route-redirect-loops"
	RouteRedirectsElsewhere ID = "route-redirects-elsewhere"
	ResponseMalformed       ID = "answer-malformed"
	ResponseTruncated       ID = "answer-truncated"
	ResponseTooLarge        ID = "answer-too-large"
)

// proxyProtocolRemediation is the mend where a connection that was accepted ends at once.
const proxyProtocolRemediation = "the router may expect the PROXY protocol (hostNetwork.protocol: PROXY of the IngressController): set upstream.proxyProtocol to v2 or v1; " +
	"where that is set, it may expect the other version, or none (off); else see the router's log"

// ingressEntries are found at the ingress VIP. {upstream} is address and port of
// the router, {error} what the system said.
func ingressEntries() []Entry {
	const check = "ingress"
	return []Entry{
		{
			ID: IngressNoAddress, Cause: "no-upstream-for-family", Check: check, JournalOnly: true, Level: Problem,
			Reply:       "no upstream is configured",
			Symptom:     "Challenges get 502 with `no upstream is configured`.",
			Message:     "no ingress address is known",
			Remediation: "check the ingress instances in keepalived.conf, or set vips.ingress",
		},
		{
			ID: IngressRefused, Cause: "refused", Check: check, Level: Problem,
			Reply:       "upstream refused the connection",
			Symptom:     "Challenges get 502 with `upstream refused the connection`; the state is `UpstreamUnreachable`.",
			Message:     "{upstream} refuses connections",
			Remediation: "check that a router runs there, on a cluster on the holder of the ingress VIP, and that upstream.port is its HTTP port and upstream.httpsPort its HTTPS port",
		},
		{
			ID: IngressTimeout, Cause: "timeout-connect", Check: check, Level: Problem, CausedBy: packetLossCauses(),
			Reply:       "upstream did not accept the connection in time",
			Symptom:     "Challenges get 504 after some seconds with `upstream did not accept the connection in time`; the state is `UpstreamUnreachable`.",
			Message:     "{upstream} does not reply to connection attempts",
			Remediation: "check that a host holds the ingress VIP and that no firewall drops the port",
		},
		{
			ID: IngressUnreachable, Cause: "unreachable", Check: check, Level: Problem, CausedBy: packetLossCauses(),
			Reply:       "upstream is unreachable",
			Symptom:     "Challenges get 502 with `upstream is unreachable`; the state is `UpstreamUnreachable`.",
			Message:     "{upstream} is unreachable ({error})",
			Remediation: "check this host's routes and firewall towards the ingress VIP",
		},
		{
			ID: IngressClosedConnection, Cause: "closed-without-answer", Check: check, Level: Problem,
			Reply:       "upstream closed the connection without an answer",
			Symptom:     "Challenges get 502 with `upstream closed the connection without an answer`.",
			Message:     "{upstream} accepted the connection and closed it without an answer",
			Remediation: proxyProtocolRemediation,
		},
		{
			ID: IngressResetConnection, Cause: "reset", Check: check, Level: Problem,
			Reply:       "upstream reset the connection",
			Symptom:     "Challenges get 502 with `upstream reset the connection`.",
			Message:     "{upstream} reset the connection",
			Remediation: proxyProtocolRemediation,
		},
		{
			ID: IngressNoResponse, Cause: "timeout-answer", Check: check, Level: Problem, CausedBy: packetLossCauses(),
			Reply:       "upstream did not answer in time",
			Symptom:     "Challenges get 504 after some seconds with `upstream did not answer in time`.",
			Message:     "{upstream} accepted the connection but did not answer in time",
			Remediation: "check the router and the pods of cert-manager's solver; upstream.timeout is the budget",
		},
		{
			ID: IngressTLSUntrusted, Cause: "tls-untrusted", Check: check, Level: Problem, CausedBy: []ID{CABundleInvalid, NoTrustedCA},
			Reply:   "upstream presents a certificate that is not trusted",
			Symptom: "Challenges get 502 with `upstream presents a certificate that is not trusted`.",
			Message: "{upstream} is not trusted: {error}",
			Remediation: "put the certificate of the CA that has issued it into the file that upstream.trustedCA names (/etc/http01-proxyd/ca-bundle.crt); " +
				"the ingress operator's own is in the configmap default-ingress-cert of openshift-config-managed; and see that the router presents the intermediate certificates, too",
		},
		{
			ID: IngressTLSName, Cause: "tls-name", Check: check, Level: Problem,
			Reply:       "upstream presents a certificate for another name",
			Symptom:     "Challenges get 502 with `upstream presents a certificate for another name`.",
			Message:     "{upstream} presents a certificate for other names: {error}",
			Remediation: "if it is the router's default certificate, name what it is for in upstream.verifyNames, such as \"*.apps.<cluster domain>\"; else see who answers there",
		},
		{
			ID: IngressTLSExpired, Cause: "tls-expired", Check: check, Level: Problem,
			Reply:       "upstream presents a certificate that is not valid now",
			Symptom:     "Challenges get 502 with `upstream presents a certificate that is not valid now`.",
			Message:     "{upstream} presents a certificate that is not valid now: {error}",
			Remediation: "renew it (oc get secret -n openshift-ingress), and look at the clock of this host (chronyc tracking)",
		},
		{
			ID: IngressTLSHandshake, Cause: "tls-handshake", Check: check, Level: Problem,
			Reply:       "upstream failed the TLS handshake",
			Symptom:     "Challenges get 502 with `upstream failed the TLS handshake`.",
			Message:     "{upstream} accepted the connection, but TLS did not come about: {error}",
			Remediation: "check that upstream.httpsPort is the router's HTTPS port, and that it speaks TLS 1.2 or newer and asks for no client certificate (tlsSecurityProfile, clientTLS of the IngressController)",
		},
		{
			ID: IngressPROXYProtocol, Cause: "proxy-protocol-unexpected", Check: check, Level: Problem,
			Symptom: "Challenges get 400 with the router's page since upstream.proxyProtocol was set.",
			Message: "{upstream} answers 400 to a connection that begins with a header of the PROXY protocol, as a router does that does not expect one",
			Remediation: "set upstream.proxyProtocol: off, or let the router expect it (hostNetwork.protocol: PROXY of the IngressController); " +
				"if it does, the 400 is the solver's, or for the other version: see the router's log",
		},
		{
			ID: LocalResources, Cause: "local-resources", Check: check, Level: Problem,
			Reply:       "the proxy could not ask the upstream",
			Symptom:     "Challenges get 502 with `the proxy could not ask the upstream`.",
			Message:     "this host could not open a connection to {upstream} ({error})",
			Remediation: "check the service's descriptor limit and the host's free ports",
		},
		{
			ID: ExchangeStopped, Cause: "stopped", Check: check, JournalOnly: true, Level: Warning,
			Reply:       "the proxy could not ask the upstream",
			Symptom:     "One challenge gets 502 with `the proxy could not ask the upstream` while the service is being stopped.",
			Message:     "the exchange with {upstream} was ended because the service stops",
			Remediation: "nothing: CAs and cert-manager ask again, and the next start answers them",
		},
	}
}

// routeEntries are read off what the router, or what is behind it, has answered.
func routeEntries() []Entry {
	const check = "route"
	return []Entry{
		{
			ID: RouteMissing, Cause: "router-no-route", Check: check, Level: Problem,
			Symptom: "Challenges get 503, as a rule with the router's page.",
			Message: "{upstream} answered 503, as a router does where no route to a solver serves this name",
			Remediation: "with cert-manager 1.18 or newer switch its feature gate ACMEHTTP01IngressPathTypeExact off (routers skip pathType Exact); " +
				"else look for a route of another namespace that claims the host",
		},
		{
			ID: RouteRedirectsHTTPS, Cause: "redirect-to-https", Check: check, Level: Problem,
			Symptom:     "Challenges get a redirect to https, with upstream.followRedirects: false.",
			Message:     "{upstream} redirects the challenge to https, which is not followed (upstream.followRedirects: false): at the API VIP nobody answers the challenge there",
			Remediation: "let the route of this host serve plain HTTP (insecureEdgeTerminationPolicy: Allow), or remove upstream.followRedirects: false",
		},
		{
			ID: RouteRedirectLoop, Cause: "redirect-loop", Check: check, Level: Problem,
			Symptom:     "Challenges get a redirect to https, though upstream.followRedirects is set.",
			Message:     "{upstream} redirects the challenge to https again and again, also when it is asked by https",
			Remediation: "see which application redirects behind the router: it has to take X-Forwarded-Proto for the scheme, or leave the solver's path alone",
		},
		{
			ID: RouteRedirectsElsewhere, Cause: "redirect-elsewhere", Check: check, Level: Problem,
			Symptom:     "Challenges get a redirect to another host, path, port or scheme.",
			Message:     "{upstream} redirects the challenge to {error}, which is something else than the same by https, and not followed",
			Remediation: "let the solver's path be answered where it is asked for: see which route or ingress of this name redirects (curl -v http://<name>/.well-known/acme-challenge/x)",
		},
		{
			ID: RouteLoop, Cause: "loop", Check: check, Level: Problem,
			Symptom:     "Challenges get 502; the journal says that they came back to the API VIP.",
			Message:     "{upstream} led the challenge back to the API VIP: the route or ingress of this name has the API VIP as its back end, or upstream leads there",
			Remediation: "let the route lead to cert-manager's solver",
		},
		{
			ID: ResponseTooLarge, Cause: "answer-too-large", Check: check, Level: Problem,
			Reply:       "upstream sent an answer that is too large",
			Symptom:     "Challenges get an answer that breaks off, or 502 with `upstream sent an answer that is too large`.",
			Message:     "{upstream} {error}, which was cut: a key authorisation has about a hundred bytes, so it is not cert-manager's solver that answers",
			Remediation: "look which route or ingress of this name has the path",
		},
		{
			ID: ResponseMalformed, Cause: "malformed-answer", Check: check, Level: Problem,
			Reply:       "upstream sent a malformed answer",
			Symptom:     "Challenges get 502 with `upstream sent a malformed answer`.",
			Message:     "{upstream} sent no valid HTTP/1.x answer ({error})",
			Remediation: "check that upstream.port is the router's plain HTTP port",
		},
		{
			ID: ResponseTruncated, Cause: "answer-truncated", Check: check, Level: Problem,
			Reply:       "upstream sent an incomplete answer",
			Symptom:     "Challenges get 502 with `upstream sent an incomplete answer`, or an answer that breaks off.",
			Message:     "{upstream} broke off its answer ({error})",
			Remediation: "see the router's log",
		},
	}
}
