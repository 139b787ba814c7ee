// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"errors"
	"io/fs"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/result"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings/verdict"
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

// Check evaluates the CA bundles like the service does. What is wrong in the service's own report takes
// precedence, because the service is not root and cannot read all files that root can.
func (t Sources) Check(reported report.Trust) result.Result {
	if t.configured == nil {
		return result.Pass("the configuration does not use TLS to the ingress")
	}
	if found := verdict.Trust(reported); reported.Path == t.configured.Path() && len(found) > 0 {
		return result.Of(found...)
	}
	if t.Unreadable() != nil {
		return result.Skip("%v", t.Unreadable())
	}
	own := trust.Report(t.configured, t.system)
	if own.Kind == report.TrustNone && t.system == nil && !t.privileged { // only root can read the last good bundle
		own.Kind = report.TrustLastGood
	}
	_, message := own.Evaluate()
	return result.PassUnless(verdict.Trust(own), "%s", message)
}
