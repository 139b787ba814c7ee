// SPDX-License-Identifier: Apache-2.0

package findings

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
	)
	return []Entry{
		{
			ID: CABundleInvalid, Check: check, Level: Problem,
			Symptom:     "The condition `UpstreamTrustReady` is False, and a new CA of the ingress is not trusted.",
			Message:     "The CA bundle is rejected, and the previous CAs stay trusted: {problem}",
			Remediation: fix,
		},
		{
			ID: CABundlePartial, Check: check, Level: Warning,
			Symptom:     "`UpstreamTrustReady` is True, but a certificate of the bundle is not trusted.",
			Message:     "{path} contains certificates that are not trusted: {certificates}",
			Remediation: "Remove or replace these certificates. All others in the file are trusted.",
		},
		{
			ID: NoTrustedCA, Check: check, Level: Problem,
			Symptom:     "The condition `UpstreamTrustReady` is False with the reason `NothingTrusted`. Each challenge over TLS gets a 502.",
			Message:     "No CA is trusted for TLS to the ingress: {problem}",
			Remediation: fix,
		},
	}
}
