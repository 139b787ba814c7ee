// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"context"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress/trust"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// checkTrust judges the files of trusted CAs as the service does. What the service
// itself says of them comes first: it is not root, and cannot read all that root can.
func checkTrust(ctx context.Context, h *host) Result {
	t, known := h.observed.trust.await(ctx)
	if !known {
		return skippedResult("there was no time to read it")
	}
	return t.result(h)
}

func (t upstreamTrust) result(h *host) Result {
	admin := t.configured
	switch {
	case admin == nil:
		return okResult("by this configuration the ingress is not asked by TLS")
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
	case admin.Loaded() || !h.privileged: // who is not root cannot read what was good last
		matches = append(matches, findings.New(findings.CABundleInvalid, "problem", err.Error()))
	default:
		matches = append(matches, findings.New(findings.NoTrustedCA, "problem", err.Error()))
	}
	if left := admin.Assessment(); err == nil && left.SkippedCount > 0 {
		matches = append(matches, findings.New(findings.CABundlePartial, "path", admin.Path(), "certificates", left.SkippedSummary()))
	}
	return findingsResult(matches, "%s", trust.Describe(admin.Origin(), admin.Roots()))
}

// reportedTrustFindings is what the running service refuses of the file at path, or misses.
func (h *host) reportedTrustFindings(path string) []findings.Finding {
	said, err := h.report()
	t := said.Trust
	switch {
	case err != nil, t.Path != path, t.Error == "":
		return nil
	case t.Kind == report.TrustNone:
		return []findings.Finding{findings.New(findings.NoTrustedCA, "problem", t.Error)}
	default:
		return []findings.Finding{findings.New(findings.CABundleInvalid, "problem", t.Error)}
	}
}

// systemResult judges this host's own CAs, which are in force without a file of the
// admin's.
func (t upstreamTrust) systemResult() Result {
	admin := t.configured
	if err := t.system.Err(); err != nil {
		return findingsResult([]findings.Finding{findings.New(findings.NoTrustedCA, "problem", err.Error())}, "")
	}
	if err := admin.Err(); err != nil { // and before it there was none
		return findingsResult([]findings.Finding{findings.New(findings.CABundleInvalid, "problem", err.Error())}, "")
	}
	at := t.system.Source()
	return okResult("there is no %s: the %d CAs of this host are trusted (%s)", admin.Path(), len(at.Roots()), at.Path())
}
