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
	t, known := h.seen.trust.wait(ctx)
	if !known {
		return skipped("there was no time to read it")
	}
	return t.judge(h)
}

func (t trusted) judge(h *host) Result {
	admin := t.admin
	switch {
	case admin == nil:
		return fine("by this configuration the ingress is not asked by TLS")
	case h.trustRefused(admin.Path()) != nil:
		return found(h.trustRefused(admin.Path()), "")
	case t.hidden(h) != nil:
		return skipped("%v", t.hidden(h))
	case t.host != nil:
		return t.judgeSystem()
	}
	err := admin.Err()
	var matches []findings.Finding
	switch {
	case err == nil:
	case admin.Known() || !h.root: // who is not root cannot read what was good last
		matches = append(matches, findings.Find(findings.TrustRefused, "problem", err.Error()))
	default:
		matches = append(matches, findings.Find(findings.TrustNone, "problem", err.Error()))
	}
	if left := admin.Verdict(); err == nil && left.Dropped > 0 {
		matches = append(matches, findings.Find(findings.TrustLeftOut, "path", admin.Path(), "certificates", left.WhatIsLeftOut()))
	}
	return found(matches, "%s", trust.About(admin.Origin(), admin.Roots()))
}

// trustRefused is what the running service refuses of the file at path, or misses.
func (h *host) trustRefused(path string) []findings.Finding {
	said, err := h.service()
	t := said.Trust
	switch {
	case err != nil, t.Path != path, t.Error == "":
		return nil
	case t.Kind == report.TrustNone:
		return []findings.Finding{findings.Find(findings.TrustNone, "problem", t.Error)}
	default:
		return []findings.Finding{findings.Find(findings.TrustRefused, "problem", t.Error)}
	}
}

// judgeSystem judges this host's own CAs, which are in force without a file of the
// admin's.
func (t trusted) judgeSystem() Result {
	admin := t.admin
	if err := t.host.Err(); err != nil {
		return found([]findings.Finding{findings.Find(findings.TrustNone, "problem", err.Error())}, "")
	}
	if err := admin.Err(); err != nil { // and before it there was none
		return found([]findings.Finding{findings.Find(findings.TrustRefused, "problem", err.Error())}, "")
	}
	at := t.host.Source()
	return fine("there is no %s: the %d CAs of this host are trusted (%s)", admin.Path(), len(at.Roots()), at.Path())
}
