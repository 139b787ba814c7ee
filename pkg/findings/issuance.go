// SPDX-License-Identifier: Apache-2.0

package findings

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
	SolverIsGateway         ID = "solver-is-gateway"
	SolverPortBlocked       ID = "solver-port-blocked"
	ChallengePending        ID = "challenge-pending"
)

// IssuanceCheck is the check of these entries.
const IssuanceCheck = "issuance"
