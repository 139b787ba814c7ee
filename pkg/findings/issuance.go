// SPDX-License-Identifier: Apache-2.0

package findings

import "github.com/http01-proxyd/http01-proxyd/internal/docurl"

// Findings of "oc http01 certificate". "oc http01 preflight" also reports those about namedCertificates.
const (
	NamedCertificateMissing ID = "named-certificate-missing"
	NamedCertificateInvalid ID = "named-certificate-invalid"
	NamedCertificateExpired ID = "named-certificate-expired"
	NamedCertificateTwice   ID = "named-certificate-name-twice"
	NamedCertificateOther   ID = "named-certificate-not-used"
	CertificateAbsent       ID = "certificate-object-missing"
	CertificateNotReady     ID = "certificate-not-ready"
	IssuerNotReady          ID = "issuer-not-ready"
	IssuerStaging           ID = "issuer-staging"
	RequestDenied           ID = "request-denied"
	RequestNotApproved      ID = "request-not-approved"
	CARateLimited           ID = "ca-rate-limited"
	CANamePaused            ID = "ca-name-paused"
	OrderFailed             ID = "order-failed"
	OrderOutdated           ID = "order-outdated"
	SolverIsGateway         ID = "solver-is-gateway"
	SolverPortBlocked       ID = "solver-port-blocked"
	ChallengePending        ID = "challenge-pending"
)

// IssuanceCheck is the check of these entries.
const IssuanceCheck = "issuance"

// {field} is the path of an entry of namedCertificates and {other} another one, {secret}, {certificate},
// {issuer}, {request} and {order} are names, {kind} is the kind of the issuer, {namespace} is their namespace,
// {name} is a DNS name and {reason} the text of cert-manager or the CA. {profile} is a profile of Let's Encrypt.
// {seen} is a sentence or empty.
func issuanceEntries() []Entry {
	const (
		show      = "oc get secret {secret} -n {namespace}"
		edit      = "oc edit apiserver cluster"
		operator  = "oc get clusteroperator kube-apiserver"
		request   = "oc get certificaterequest {request} -n {namespace} -o yaml"
		order     = "oc get order {order} -n {namespace} -o yaml"
		issuer    = "oc get {kind} {issuer} -n {namespace} -o yaml"
		renew     = " After the fix, request a new certificate: otherwise, with its defaults, cert-manager waits up to 32 h."
		rejected  = " The operator then rejects all entries, and the API servers keep the previous certificates"
		approvers = "oc get certificaterequestpolicies.policy.cert-manager.io"

		// permitSolver permits connections of routers (cert-manager, pkg/issuer/acme/http/http.go, the port).
		permitSolver = `printf '%s' '{"apiVersion":"networking.k8s.io/v1","kind":"NetworkPolicy","metadata":{"name":"http01-solver"},` +
			`"spec":{"podSelector":{"matchLabels":{"acme.cert-manager.io/http01-solver":"true"}},"policyTypes":["Ingress"],` +
			`"ingress":[{"ports":[{"protocol":"TCP","port":8089}],"from":[{"namespaceSelector":{"matchLabels":` +
			`{"policy-group.network.openshift.io/ingress":""}}},{"namespaceSelector":{"matchLabels":` +
			`{"policy-group.network.openshift.io/host-network":""}}}]}]}}' | oc apply -n {namespace} -f -`
		showManager = "oc get pod -n cert-manager"
	)
	return []Entry{
		{
			ID: NamedCertificateMissing, Check: IssuanceCheck, ClusterOnly: true, Level: Problem,
			Symptom: "A certificate was added to namedCertificates, and the API servers do not present it.",
			Message: "{field} names the Secret {secret}, which was not found in {namespace}. Without it, the operator rejects all entries, " +
				"and the API servers keep the previous certificates",
			Remediation: "Correct the name, or let the Certificate in {namespace} write this Secret.",
			Commands:    []string{showNamed, show, operator, edit},
		},
		{
			ID: NamedCertificateInvalid, Check: IssuanceCheck, ClusterOnly: true, Level: Problem,
			Symptom:     "The API servers do not present a certificate of namedCertificates, or clients reject it because the name does not match.",
			Message:     "The Secret {secret} of {field} cannot be used: {error}",
			Remediation: "Use a Secret of the type kubernetes.io/tls with tls.crt and tls.key, as cert-manager writes it. The certificate must contain each name of the entry: compare names with dnsNames of the Certificate.",
			Commands:    []string{show, operator, edit},
		},
		{
			ID: NamedCertificateExpired, Check: IssuanceCheck, ClusterOnly: true, Level: Problem,
			Symptom:     "Clients reject the API's certificate because it has expired.",
			Message:     "The certificate in the Secret {secret} of {field} expired on {date}",
			Remediation: "Log in as described in " + docurl.CertificateExpired + ". The other findings show why it was not renewed." + renew,
			Commands:    []string{showRenewal, showFailures, renewNow},
		},
		{
			ID: NamedCertificateTwice, Check: IssuanceCheck, ClusterOnly: true, Level: Problem,
			Symptom:     "A change of namedCertificates has no effect, and the operator kube-apiserver is degraded.",
			Message:     "{field} has the name {name}, which {other} has too." + rejected,
			Remediation: "Remove the name, or the whole entry, from one of the two.",
			Commands:    []string{showNamed, operator, edit},
		},
		{
			ID: NamedCertificateOther, Check: IssuanceCheck, ClusterOnly: true, Level: Warning,
			Symptom:     "A certificate was issued, and clients of the API get another one.",
			Message:     "No entry of namedCertificates has the Secret {secret} of the Certificate {certificate} for {name}: the API servers present another certificate",
			Remediation: "Follow " + docurl.BeforeTheSwitch + ", then run 30-apiserver/switch.sh of the rendered files, or add the entry. Its Secret must be in openshift-config.",
			Commands:    []string{showNamed},
		},
		{
			ID: CertificateAbsent, Check: IssuanceCheck, ClusterOnly: true, Level: Problem,
			Symptom:     "No certificate is issued, and cert-manager has no objects for the API's name.",
			Message:     "No Certificate contains {name} in dnsNames",
			Remediation: "Create a Certificate for the name in openshift-config: oc http01 render --certificate writes it.",
			Commands:    []string{"oc get certificate -A -o custom-columns=NAMESPACE:.metadata.namespace,NAME:.metadata.name,NAMES:.spec.dnsNames"},
		},
		{
			ID: CertificateNotReady, Check: IssuanceCheck, ClusterOnly: true, Level: Problem,
			Symptom:     "A Certificate is not ready, and neither its request nor its order shows why.",
			Message:     "The Certificate {certificate} of {namespace} is not ready: {reason}",
			Remediation: "Check cert-manager's controller, and the events of the Certificate." + renew,
			Commands:    []string{"oc describe certificate {certificate} -n {namespace}", showManager, renewNow},
		},
		{
			ID: IssuerNotReady, Check: IssuanceCheck, ClusterOnly: true, Level: Problem,
			Symptom:     "A Certificate is not issued, and its CertificateRequest is pending without an Order.",
			Message:     "The {kind} {issuer} of the Certificate {certificate} is not ready: {reason}",
			Remediation: "Correct the issuer. Its status shows why the CA does not register the account.",
			Commands:    []string{issuer},
		},
		{
			ID: IssuerStaging, Check: IssuanceCheck, ClusterOnly: true, Level: Problem,
			Symptom:     "Clients reject the API's certificate: it is signed by an unknown authority.",
			Message:     "The {kind} {issuer} uses {server}, whose certificates no client trusts, but {field} presents its certificate",
			Remediation: "Use an issuer of the CA's production directory in issuerRef of the Certificate. cert-manager then requests a new certificate.",
			Commands:    []string{issuer, "oc edit certificate {certificate} -n {namespace}"},
		},
		{
			ID: RequestDenied, Check: IssuanceCheck, ClusterOnly: true, Level: Problem,
			Symptom:     "A CertificateRequest has the condition `Denied`, and no Order exists.",
			Message:     "The CertificateRequest {request} of {namespace} was denied: {reason}",
			Remediation: "Let a policy of approver-policy permit the request: its message shows what each policy rejects. Delete the request, which can fail the next issuance too." + renew,
			Commands:    []string{request, approvers, "oc delete certificaterequest {request} -n {namespace}", renewNow},
		},
		{
			ID: RequestNotApproved, Check: IssuanceCheck, ClusterOnly: true, Level: Problem,
			Symptom:     "A CertificateRequest has no condition `Approved`, and no Order exists.",
			Message:     "The CertificateRequest {request} of {namespace} has not been approved for {age}",
			Remediation: "If cert-manager runs with disableAutoApproval, create a policy of approver-policy for the request, and let cert-manager's service account use it. Otherwise, check cert-manager's controller.",
			Commands:    []string{request, approvers, showManager},
		},
		{
			ID: CARateLimited, Check: IssuanceCheck, ClusterOnly: true, Level: Problem,
			Symptom:     "An Order is `errored` with 429 and `urn:ietf:params:acme:error:rateLimited`.",
			Message:     "The CA has reached a rate limit: {reason}",
			Remediation: "Fix what failed before, then wait until the time in the text: each further attempt counts. Use a staging issuer for tests.",
			Commands:    []string{"oc http01 check", order, renewNow},
		},
		{
			ID: CANamePaused, Check: IssuanceCheck, ClusterOnly: true, Level: Problem,
			Symptom:     "An Order is `errored` with `temporarily prevented from requesting certificates`.",
			Message:     "The CA has paused the account for the name after many failed validations: {reason}",
			Remediation: "Waiting does not help. Fix the path first and check it, then open the link in the text and unpause the name.",
			Commands:    []string{"oc http01 check", order, renewNow},
		},
		{
			ID: OrderFailed, Check: IssuanceCheck, ClusterOnly: true, Level: Problem,
			Symptom:     "An Order is `invalid`, `errored` or `expired`.",
			Message:     "The order {order} of {namespace} failed: {reason}",
			Remediation: "If the CA did not get the key, check the path from the internet to the VIP." + renew,
			Commands:    []string{"oc http01 check", order, renewNow},
		},
		{
			ID: OrderOutdated, Check: IssuanceCheck, ClusterOnly: true, Level: Warning,
			Symptom:     "An Order is pending for more than an hour. After a fix, its Challenge becomes `expired`, and cert-manager waits.",
			Message:     "The order {order} of {namespace} has been pending for {age}. Let's Encrypt keeps the challenges of the profile {profile} for an hour",
			Remediation: "Delete the order, also if the cause is fixed: cert-manager creates another one at once. Otherwise, this attempt fails when the self check passes, and cert-manager waits up to 32 h.",
			Commands:    []string{"oc delete order {order} -n {namespace}"},
		},
		{
			ID: SolverIsGateway, Check: IssuanceCheck, ClusterOnly: true, Level: Problem,
			Symptom:     "A challenge stays pending with 503, and the solver has an HTTPRoute but no Ingress.",
			Message:     "The challenge for {name} has a solver of the kind gatewayHTTPRoute. It answers at the address of the Gateway, and not at the ingress VIP",
			Remediation: "Use a solver of the kind ingress in the {kind} {issuer}. Its selector can limit it to the name.",
			Commands:    []string{issuer},
		},
		{
			ID: SolverPortBlocked, Check: IssuanceCheck, ClusterOnly: true, Level: Problem,
			Symptom:     "A challenge stays pending with 504 or 503, and the solver's pod is ready.",
			Message:     "The solver's pod {pod} of {namespace} is selected by NetworkPolicies for ingress ({policies}), and none of them permits port 8089",
			Remediation: "Let the router connect to the solver. The last command adds a NetworkPolicy that permits port 8089 of solvers for routers, in pods or in the network of the hosts.",
			Commands:    []string{"oc get networkpolicy -n {namespace} -o yaml", permitSolver},
		},
		{
			ID: ChallengePending, Check: IssuanceCheck, ClusterOnly: true, Level: Problem,
			Symptom:     "A Challenge is `pending`, and no certificate is issued.",
			Message:     "The challenge for {name} is pending for {age}: {reason}{seen}",
			Remediation: "cert-manager repeats its self check every 10 s. The check with the token shows what a request for it gets.",
			Commands:    []string{"oc http01 check --name {name} --token={token}", showFailures},
		},
	}
}
