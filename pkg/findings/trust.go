// SPDX-License-Identifier: Apache-2.0

package findings

// What goes wrong with the CAs by which an ingress that speaks TLS is verified.
const (
	CABundleInvalid ID = "trust-refused"
	CABundlePartial ID = "trust-left-out"
	NoTrustedCA     ID = "trust-none"
)

// {problem} is what is wrong with a file, which it names, and the mend.
func caBundleEntries() []Entry {
	const check = "trust"
	return []Entry{
		{
			ID: CABundleInvalid, Check: check, Level: Problem,
			Symptom:     "The condition `UpstreamTrustReady` is False; a new CA of the ingress is not trusted.",
			Message:     "the file of trusted CAs is refused, what was trusted before stays in force: {problem}",
			Remediation: "the service takes a mended file up by itself, within a second",
		},
		{
			ID: CABundlePartial, Check: check, Level: Warning,
			Symptom:     "`UpstreamTrustReady` is True, and yet a certificate of the bundle is not trusted.",
			Message:     "{path} has certificates that are not trusted: {certificates}",
			Remediation: "take them out, or put better ones in their place; all others of the file are trusted",
		},
		{
			ID: NoTrustedCA, Check: check, Level: Problem,
			Symptom:     "The condition `UpstreamTrustReady` is False with the reason `NothingTrusted`; each challenge over TLS gets a 502.",
			Message:     "no CA is trusted for TLS to the ingress: {problem}",
			Remediation: "the service takes a mended file up by itself, within a second",
		},
	}
}
