// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"errors"
	"io/fs"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/result"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress/trust"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// Sources are the CAs that verify the ingress, loaded like the service does.
type Sources struct {
	configured *trust.Source // nil: the configuration uses no TLS
	system     *trust.System // nil: the configured bundle applies
	privileged bool
}

// Read reads the CAs.
func Read(c config.Config, stateDir string, privileged bool) Sources {
	t := Sources{privileged: privileged}
	if !c.UsesTLS() {
		return t
	}
	now := time.Now()
	t.configured = trust.NewSource(c.Upstream.TrustedCA, trust.NewLastGoodCopy(stateDir, trust.LastGoodName))
	t.configured.Refresh(now)
	if t.configured.Absent() {
		t.system = trust.NewSystem(trust.SystemFiles())
		t.system.Refresh(now)
	}
	return t
}

// Unreadable is the reason why this process cannot read the CAs of the service, or nil.
func (t Sources) Unreadable() error {
	if t.configured == nil || t.privileged || !errors.Is(t.configured.Err(), fs.ErrPermission) {
		return nil
	}
	return t.configured.Err()
}

// Bundle are the CAs in effect; nil without TLS.
func (t Sources) Bundle() *ingress.CABundle {
	if t.configured == nil {
		return nil
	}
	roots, source := trust.EffectiveRoots(t.configured, t.system)
	return trust.NewCABundle(source, roots)
}

// Check evaluates the CA bundles like the service does. The service's own report takes
// precedence, because the service is not root and cannot read all files that root can.
func (t Sources) Check(reported report.Trust) result.Result {
	admin := t.configured
	switch {
	case admin == nil:
		return result.Pass("the configuration does not use TLS to the ingress")
	case reported.Path == admin.Path() && reported.Error != "" && reported.Kind == report.TrustNone:
		return result.Found(findings.NoTrustedCA, findings.Values{"problem": reported.Error, "path": admin.Path()})
	case reported.Path == admin.Path() && reported.Error != "":
		return result.Found(findings.CABundleInvalid, findings.Values{"problem": reported.Error, "path": admin.Path()})
	case t.Unreadable() != nil:
		return result.Skip("%v", t.Unreadable())
	case t.system != nil:
		return t.checkSystem()
	}
	err := admin.Err()
	switch left := admin.Assessment(); {
	case err == nil && left.SkippedCount > 0:
		values := findings.Values{"path": admin.Path(), "certificates": left.SkippedSummary()}
		return result.Found(findings.CABundlePartial, values)
	case err == nil:
		return result.Pass("%s", trust.Describe(admin.Path(), admin.Roots()))
	case admin.Loaded() || !t.privileged: // only root can read the last good bundle
		return result.Found(findings.CABundleInvalid, findings.Values{"problem": err.Error(), "path": admin.Path()})
	default:
		return result.Found(findings.NoTrustedCA, findings.Values{"problem": err.Error(), "path": admin.Path()})
	}
}

// checkSystem evaluates the CAs of this host, which apply without a configured file.
func (t Sources) checkSystem() result.Result {
	if err := t.system.Err(); err != nil {
		return result.Found(findings.NoTrustedCA, findings.Values{"problem": err.Error()})
	}
	if err := t.configured.Err(); err != nil { // and there was no earlier one
		return result.Found(findings.CABundleInvalid, findings.Values{"problem": err.Error(), "path": t.configured.Path()})
	}
	at := t.system.Source()
	return result.Pass("%s does not exist, so the %d CAs of this host are trusted (%s)",
		t.configured.Path(), len(at.Roots()), at.Path())
}
