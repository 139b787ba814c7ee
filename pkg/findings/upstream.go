// SPDX-License-Identifier: Apache-2.0

package findings

// Findings between this host and the solver: at the ingress VIP, at the router and
// in the response.
const (
	IngressNoAddress        ID = "ingress-no-address"
	IngressRefused          ID = "ingress-refused"
	IngressTimeout          ID = "ingress-timeout"
	IngressUnreachable      ID = "ingress-unreachable"
	IngressClosedConnection ID = "ingress-closed-connection"
	IngressResetConnection  ID = "ingress-reset-connection"
	IngressNoResponse       ID = "ingress-no-response"
	IngressTLSUntrusted     ID = "ingress-tls-untrusted"
	IngressTLSName          ID = "ingress-tls-name"
	IngressTLSExpired       ID = "ingress-tls-expired"
	IngressTLSHandshake     ID = "ingress-tls-handshake"
	IngressPROXYProtocol    ID = "ingress-proxy-protocol"
	LocalResources          ID = "local-resources"
	ExchangeStopped         ID = "exchange-stopped"
	ExchangeGivenUp         ID = "exchange-given-up"
	RouteMissing            ID = "route-missing"
	RouteMissingForAddress  ID = "route-missing-for-address"
	RouteLoop               ID = "route-loop"
	RouteRedirectsHTTPS     ID = "route-redirects-https"
	RouteRedirectLoop       ID = "route-redirect-loop"
	RouteRedirectsElsewhere ID = "route-redirects-elsewhere"
	ResponseMalformed       ID = "response-malformed"
	ResponseTruncated       ID = "response-truncated"
	ResponseTooLarge        ID = "response-too-large"
)

// proxyProtocolRemediation is for a router that closes an accepted connection at
// once.
const proxyProtocolRemediation = "If the router expects the PROXY protocol (hostNetwork.protocol: PROXY of the IngressController), set upstream.proxyProtocol to v2 or v1. " +
	"If it is set, the router may expect the other version, or none (off). Otherwise, see the router's log."

// ingressEntries are detected at the ingress VIP. {upstream} is address and port of
// the router, {error} the reason that the system or the parser gave. In commands, {router} is the
// same address and port, and {address} the address alone.
func ingressEntries() []Entry {
	const check = "ingress"
	return []Entry{
		{
			ID: IngressNoAddress, Exchange: true, Check: check, JournalOnly: true, Level: Problem,
			Reply:       "no upstream is configured",
			Symptom:     "Challenges get 502 with `no upstream is configured`.",
			Message:     "No ingress address is known",
			Remediation: "Check the ingress instances in keepalived.conf, or set vips.ingress.",
			Commands:    []string{"http01-proxyd check --only vips"},
		},
		{
			ID: IngressRefused, Exchange: true, Check: check, Level: Problem,
			Reply:       "upstream refused the connection",
			Symptom:     "Challenges get 502 with `upstream refused the connection`. The state is `UpstreamUnreachable`.",
			Message:     "{upstream} refuses connections",
			Remediation: "Check that a router runs there: on a cluster, on the holder of the ingress VIP. upstream.port and upstream.httpsPort must be its ports.",
			Commands:    []string{showRouters, "oc get ingresscontroller -n openshift-ingress-operator -o wide", askAddress},
		},
		{
			ID: IngressTimeout, Exchange: true, Check: check, Level: Problem, CausedBy: []ID{VIPLinkDown},
			Reply:       "upstream did not accept the connection in time",
			Symptom:     "Challenges get 504 after some seconds with `upstream did not accept the connection in time`. The state is `UpstreamUnreachable`.",
			Message:     "{upstream} does not reply to connection attempts",
			Remediation: "Check that a host holds the ingress VIP, and that no firewall drops the port.",
			Commands:    []string{"ip neighbour show {address}", showRouters, askAddress},
		},
		{
			ID: IngressUnreachable, Exchange: true, Check: check, Level: Problem, CausedBy: []ID{VIPLinkDown},
			Reply:       "upstream is unreachable",
			Symptom:     "Challenges get 502 with `upstream is unreachable`. The state is `UpstreamUnreachable`.",
			Message:     "{upstream} is unreachable ({error})",
			Remediation: "Check the routes of this host, its firewall, and those between it and the ingress VIP.",
			Commands:    []string{"ip route get {address}", "ip route", "ip -6 route"},
		},
		{
			ID: IngressClosedConnection, Exchange: true, Check: check, Level: Problem,
			Reply:       "upstream closed the connection without a response",
			Symptom:     "Challenges get 502 with `upstream closed the connection without a response`.",
			Message:     "{upstream} accepted the connection and closed it without a response",
			Remediation: proxyProtocolRemediation,
			Commands:    []string{showPROXY, showRouterLog},
		},
		{
			ID: IngressResetConnection, Exchange: true, Check: check, Level: Problem,
			Reply:       "upstream reset the connection",
			Symptom:     "Challenges get 502 with `upstream reset the connection`.",
			Message:     "{upstream} reset the connection",
			Remediation: proxyProtocolRemediation,
			Commands:    []string{showPROXY, showRouterLog},
		},
		{
			ID: IngressNoResponse, Exchange: true, Check: check, Level: Problem,
			Reply:       "upstream did not respond in time",
			Symptom:     "Challenges get 504 after some seconds with `upstream did not respond in time`.",
			Message:     "{upstream} accepted the connection but did not respond in time",
			Remediation: "Check the router, and the pods of cert-manager's solver. The limit is upstream.timeout.",
			Commands:    []string{showRouters, showSolvers, showRouterLog},
		},
		{
			ID: IngressTLSUntrusted, Exchange: true, Check: check, Level: Problem, CausedBy: []ID{CABundleInvalid, NoTrustedCA},
			Reply:       "upstream presents a certificate that is not trusted",
			Symptom:     "Challenges get 502 with `upstream presents a certificate that is not trusted`.",
			Message:     "The certificate of {upstream} is not trusted: {error}",
			Remediation: "Add the issuing CA to the file in upstream.trustedCA (/etc/http01-proxyd/ca-bundle.crt). The CA of the ingress operator is in the ConfigMap default-ingress-cert of openshift-config-managed. The router must present the intermediate certificates too.",
			Commands:    []string{showPresented, "oc get configmap default-ingress-cert -n openshift-config-managed -o jsonpath='{.data.ca-bundle\\.crt}' > ca-bundle.crt"},
		},
		{
			ID: IngressTLSName, Exchange: true, Check: check, Level: Problem,
			Reply:       "upstream presents a certificate for another name",
			Symptom:     "Challenges get 502 with `upstream presents a certificate for another name`.",
			Message:     "{upstream} presents a certificate for other names: {error}",
			Remediation: "If it is the router's default certificate, add one of its names to upstream.verifyNames, such as \"*.apps.<cluster domain>\". Otherwise, check which program listens there.",
			Commands:    []string{showPresented},
		},
		{
			ID: IngressTLSExpired, Exchange: true, Check: check, Level: Problem,
			Reply:       "upstream presents a certificate that is not valid now",
			Symptom:     "Challenges get 502 with `upstream presents a certificate that is not valid now`.",
			Message:     "{upstream} presents a certificate that is not valid now: {error}",
			Remediation: "Renew the certificate, or correct the clock of this host.",
			Commands:    []string{showPresented, "chronyc tracking", "oc get secret -n openshift-ingress --field-selector=type=kubernetes.io/tls"},
		},
		{
			ID: IngressTLSHandshake, Exchange: true, Check: check, Level: Problem,
			Reply:       "upstream failed the TLS handshake",
			Symptom:     "Challenges get 502 with `upstream failed the TLS handshake`.",
			Message:     "{upstream} accepted the connection, but the TLS handshake failed: {error}",
			Remediation: "upstream.httpsPort must be the router's HTTPS port. The router must support TLS 1.2 and must not require a client certificate (tlsSecurityProfile and clientTLS of the IngressController).",
			Commands:    []string{"oc get ingresscontroller default -n openshift-ingress-operator -o jsonpath='{.spec.tlsSecurityProfile} {.spec.clientTLS}{\"\\n\"}'", "openssl s_client -connect {router} </dev/null"},
		},
		{
			ID: IngressPROXYProtocol, Exchange: true, Check: check, Level: Problem,
			Symptom:     "Challenges get 400 with the router's page since upstream.proxyProtocol was set.",
			Message:     "{upstream} answers 400 to a connection that begins with a PROXY protocol header, which the router probably does not expect",
			Remediation: "Set upstream.proxyProtocol: off, or enable the protocol at the router (hostNetwork.protocol: PROXY of the IngressController). If it is enabled, the 400 comes from the solver, or the router expects the other version: see its log.",
			Commands:    []string{showPROXY, showRouterLog},
		},
		{
			ID: LocalResources, Exchange: true, Check: check, Level: Problem,
			Reply:       "the proxy cannot connect to the upstream",
			Symptom:     "Challenges get 502 with `the proxy cannot connect to the upstream`.",
			Message:     "This host lacks resources for an exchange with {upstream} ({error})",
			Remediation: "Check the service's limit of descriptors, the host's free ports, and whether other routes send large responses.",
			Commands:    []string{"systemctl show http01-proxyd --property=LimitNOFILE,MainPID", "ss -s", "sysctl net.ipv4.ip_local_port_range"},
		},
		{
			ID: ExchangeStopped, Exchange: true, Check: check, JournalOnly: true, Level: Warning,
			Reply:       "the proxy cannot connect to the upstream",
			Symptom:     "One challenge gets 502 with `the proxy cannot connect to the upstream` while the service is being stopped.",
			Message:     "The exchange with {upstream} ended because the service is stopping",
			Remediation: "You do not need to do anything: CAs and cert-manager retry.",
		},
		{
			ID: ExchangeGivenUp, Exchange: true, Check: check, JournalOnly: true, Level: Problem,
			Reply:       "upstream responds too slowly while other requests wait",
			Symptom:     "Challenges get 504 with `upstream responds too slowly while other requests wait`.",
			Message:     "{upstream} had not responded when all slots were in use, and the service ended the exchange for others that waited",
			Remediation: "Find out why this route responds slowly, and who requests it so often. For legitimate clients, raise limits.maxConnections or limits.perSource. If any name is accepted, list the names of the API in hosts.",
			Commands:    []string{"journalctl -u http01-proxyd CAUSE=exchange-given-up -n 20 --no-pager", "http01-proxyd status -o wide"},
		},
	}
}

// routeEntries are detected in the response of the router or of its back end.
func routeEntries() []Entry {
	const check = "route"
	return []Entry{
		{
			ID: RouteMissing, Exchange: true, Check: check, Level: Problem,
			Symptom: "Challenges get 503, usually with the router's page.",
			Message: "{upstream} answered 503: the router probably has no route to a solver for this name",
			Remediation: "From cert-manager 1.18 on, set ACMEHTTP01IngressPathTypeExact=false among its feature " +
				"gates, because routers skip pathType Exact. Red Hat's operator sets it, unless " +
				"spec.unsupportedConfigOverrides of the CertManager replaces its feature gates. Without the " +
				"operator, set it in cert-manager's Deployment. The commands add it to overrides that lack " +
				"it, and without the operator to the Deployment. If it is set, check that the solver's pod is " +
				"ready, that its Ingress has the router's class, and that no route in another namespace " +
				"claims the host.",
			Commands: []string{
				showSolvers,
				"oc get deployment -A -l app.kubernetes.io/name=cert-manager -o custom-columns='NAMESPACE:.metadata.namespace,NAME:.metadata.name,ARGS:.spec.template.spec.containers[0].args'",
				"oc get ingressclass", showRoutes,
				addFeatureGate,
				`oc api-resources --api-group=operator.openshift.io -o name | grep -q certmanagers || oc patch deployment cert-manager -n cert-manager --type=json --patch='[{"op":"add","path":"/spec/template/spec/containers/0/args/-","value":"--feature-gates=ACMEHTTP01IngressPathTypeExact=false"}]'`,
			},
		},
		{
			ID: RouteMissingForAddress, Exchange: true, Check: check, Level: Problem,
			Symptom:     "Challenges for an IP address get 503, and the Certificate has `ipAddresses`.",
			Message:     "{upstream} answered 503 to a challenge for an IP address. OpenShift creates no route for it, because cert-manager's Ingress then has no host",
			Remediation: "Remove ipAddresses from the Certificate, and use a DNS name. No setting of this service changes that.",
			Commands:    []string{"oc get certificate -A -o custom-columns=NAMESPACE:.metadata.namespace,NAME:.metadata.name,NAMES:.spec.dnsNames,ADDRESSES:.spec.ipAddresses"},
		},
		{
			ID: RouteRedirectsHTTPS, Exchange: true, Check: check, Level: Problem,
			Symptom:     "Challenges get a redirect to https, with upstream.followRedirects: false.",
			Message:     "{upstream} redirects the challenge to https, which is not followed (upstream.followRedirects: false)",
			Remediation: "Let the route of this host serve plain HTTP (insecureEdgeTerminationPolicy: Allow), or remove upstream.followRedirects: false. Nothing serves the challenge by https at the API VIP.",
			Commands:    []string{showRoutes, askRouter},
		},
		{
			ID: RouteRedirectLoop, Exchange: true, Check: check, Level: Problem,
			Symptom:     "Challenges get a redirect to https, although upstream.followRedirects is set.",
			Message:     "{upstream} redirects the challenge to https repeatedly, also for requests by https",
			Remediation: "Find the application behind the router that redirects. It must take the scheme from X-Forwarded-Proto, or leave the solver's path alone.",
			Commands:    []string{showRoutes, askRouter},
		},
		{
			ID: RouteRedirectsElsewhere, Exchange: true, Check: check, Level: Problem,
			Symptom:     "Challenges get a redirect to another host, path, port or scheme.",
			Message:     "{upstream} redirects the challenge to {error}, which is not followed",
			Remediation: "Find the route or ingress of this name that redirects. Only a redirect to the same URL by https is followed.",
			Commands:    []string{showRoutes, askRouter},
		},
		{
			ID: RouteLoop, Exchange: true, Check: check, Level: Problem,
			Symptom:     "Challenges get 502, and the journal reports that they came back to the API VIP.",
			Message:     "{upstream} forwarded the challenge back to the API VIP",
			Remediation: "Point the route or ingress of this name to cert-manager's solver. Its back end is the API VIP now, or upstream points there.",
			Commands:    []string{showRoutes, showSolvers},
		},
		{
			ID: ResponseTooLarge, Exchange: true, Check: check, Level: Problem,
			Reply:       "upstream sent a response that is too large",
			Symptom:     "Challenges get 502 with `upstream sent a response that is too large`.",
			Message:     "{upstream} {error}",
			Remediation: "Find the route or ingress of this name that serves the path. A key authorisation is about a hundred bytes long, so the response is not from cert-manager's solver.",
			Commands:    []string{showRoutes, askRouter},
		},
		{
			ID: ResponseMalformed, Exchange: true, Check: check, Level: Problem,
			Reply:       "upstream sent a malformed response",
			Symptom:     "Challenges get 502 with `upstream sent a malformed response`.",
			Message:     "{upstream} did not send a valid HTTP/1.x response ({error})",
			Remediation: "Check that upstream.port is the router's plain HTTP port.",
			Commands:    []string{askAddress, askRouter},
		},
		{
			ID: ResponseTruncated, Exchange: true, Check: check, Level: Problem,
			Reply:       "upstream sent an incomplete response",
			Symptom:     "Challenges get 502 with `upstream sent an incomplete response`.",
			Message:     "{upstream} sent an incomplete response ({error})",
			Remediation: "The router's log shows the reason.",
			Commands:    []string{showRouterLog},
		},
	}
}

// Findings about the CAs that verify an ingress over TLS.
const (
	CABundleInvalid ID = "ca-bundle-invalid"
	CABundlePartial ID = "ca-bundle-partial"
	NoTrustedCA     ID = "no-trusted-ca"
)

// {problem} names the file, the fault and its fix.
func caBundleEntries() []Entry {
	const (
		check = "trust"
		fix   = "Correct the file. The service reloads it within a second."
		show  = "openssl storeutl -noout -certs -text {path}"
	)
	return []Entry{
		{
			ID: CABundleInvalid, Check: check, Level: Problem,
			Symptom:     "The condition `UpstreamTrustReady` is False, and a new CA of the ingress is not trusted.",
			Message:     "The CA bundle is rejected, and the previous CAs stay trusted: {problem}",
			Remediation: fix,
			Commands:    []string{"ls -l {path}", show},
		},
		{
			ID: CABundlePartial, Check: check, Level: Warning,
			Symptom:     "`UpstreamTrustReady` is True, but a certificate of the bundle is not trusted.",
			Message:     "{path} contains certificates that are not trusted: {certificates}",
			Remediation: "Remove or replace these certificates. All others in the file are trusted.",
			Commands:    []string{show},
		},
		{
			ID: NoTrustedCA, Check: check, Level: Problem,
			Symptom:     "The condition `UpstreamTrustReady` is False with the reason `NothingTrusted`. Each challenge over TLS gets a 502.",
			Message:     "No CA is trusted for TLS to the ingress: {problem}",
			Remediation: fix,
			Commands:    []string{"ls -l {path}", show},
		},
	}
}
