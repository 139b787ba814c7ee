// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"context"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress/trust"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// checkTrust evaluates the CA bundles like the service does. The service's own report
// has precedence, because the service is not root and cannot read all files that root
// can.
func checkTrust(ctx context.Context, h *host) Result {
	t, known := h.observed.trust.await(ctx)
	if !known {
		return skippedResult("no time left to read it")
	}
	return t.result(h)
}

func (t upstreamTrust) result(h *host) Result {
	admin := t.configured
	switch {
	case admin == nil:
		return okResult("the configuration does not use TLS to the ingress")
	case h.reportedTrustFindings(admin.Path()) != nil:
		return findingsResult(h.reportedTrustFindings(admin.Path()), "")
	case t.unreadable(h) != nil:
		return skippedResult("%v", t.unreadable(h))
	case t.system != nil:
		return t.systemResult()
	}
	err := admin.Err()
	var matches []findings.Finding
	switch {
	case err == nil:
	case admin.Loaded() || !h.privileged: // only root can read the last good bundle
		matches = append(matches, findings.New(findings.CABundleInvalid, findings.Values{"problem": err.Error()}))
	default:
		matches = append(matches, findings.New(findings.NoTrustedCA, findings.Values{"problem": err.Error()}))
	}
	if left := admin.Assessment(); err == nil && left.SkippedCount > 0 {
		matches = append(matches, findings.New(findings.CABundlePartial, findings.Values{"path": admin.Path(), "certificates": left.SkippedSummary()}))
	}
	return findingsResult(matches, "%s", trust.Describe(admin.Origin(), admin.Roots()))
}

// reportedTrustFindings are the findings that the running service reports about the
// file at path.
func (h *host) reportedTrustFindings(path string) []findings.Finding {
	reported, err := h.report()
	t := reported.Trust
	switch {
	case err != nil, t.Path != path, t.Error == "":
		return nil
	case t.Kind == report.TrustNone:
		return []findings.Finding{findings.New(findings.NoTrustedCA, findings.Values{"problem": t.Error})}
	default:
		return []findings.Finding{findings.New(findings.CABundleInvalid, findings.Values{"problem": t.Error})}
	}
}

// systemResult evaluates the CAs of this host, which apply without a configured file.
func (t upstreamTrust) systemResult() Result {
	admin := t.configured
	if err := t.system.Err(); err != nil {
		return findingsResult([]findings.Finding{findings.New(findings.NoTrustedCA, findings.Values{"problem": err.Error()})}, "")
	}
	if err := admin.Err(); err != nil { // and there was no earlier one
		return findingsResult([]findings.Finding{findings.New(findings.CABundleInvalid, findings.Values{"problem": err.Error()})}, "")
	}
	at := t.system.Source()
	return okResult("%s does not exist, so the %d CAs of this host are trusted (%s)", admin.Path(), len(at.Roots()), at.Path())
}
