// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// TestTheServiceSaysFirst: files that this process takes, being root, and the service
// does not. What the service says is the finding.
func TestTheServiceSaysFirst(t *testing.T) {
	t.Parallel()
	h := &host{root: true, config: config.Default()}
	bundle := written(t, "") // a text that is refused here for another reason
	h.config.Upstream.TrustedCA = bundle
	h.config.EgressProxy.File = written(t, "HTTP_PROXY=http://192.0.2.9:3128\n")
	h.ProxyEnv, h.StateDir = filepath.Join(t.TempDir(), "none"), t.TempDir()
	const denied = ": permission denied: the service is not root: make it world-readable (chmod 0644)"
	var said report.Report
	var unheard error
	h.service = func() (report.Report, error) { return said, unheard }
	h.seen = &seen{trust: find(h.readTrust)}
	trust := func(want findings.ID, says string) {
		t.Helper()
		got := checkTrust(t.Context(), h)
		if len(got.Findings) != 1 || got.Findings[0].ID != want || !strings.Contains(got.Findings[0].Says, says) {
			t.Errorf("want %s with %q: %+v", want, says, got)
		}
	}
	said.Trust = report.Trust{Kind: report.TrustNone, Path: bundle, Error: "open " + bundle + denied}
	trust(findings.TrustNone, "(chmod 0644)")
	said.Trust.Kind = report.TrustLastGood
	trust(findings.TrustRefused, "(chmod 0644)")
	said.Trust.Path = "/of/a/former/configuration"
	trust(findings.TrustNone, "it is empty")
	unheard = errors.New("it does not run")
	trust(findings.TrustNone, "it is empty")

	egress := func(want ...findings.ID) []findings.Finding {
		t.Helper()
		matches := checkProxy(t.Context(), h).Findings
		var ids []findings.ID
		for _, f := range matches {
			ids = append(ids, f.ID)
		}
		if !slices.Equal(ids, want) {
			t.Errorf("want %q: %+v", want, matches)
		}
		return matches
	}
	h.config.EgressProxy.TrustedCA = written(t, "")
	egress(findings.EgressWithoutReadiness)
	unheard = nil
	for by, want := range map[report.EgressInput]findings.ID{report.EgressInputFile: findings.ProxyFileRefused, report.EgressInputTrustedCA: findings.EgressCARefused} {
		path := map[report.EgressInput]string{report.EgressInputFile: h.config.EgressProxy.File, report.EgressInputTrustedCA: h.config.EgressProxy.TrustedCA}[by]
		said.EgressProxy = report.EgressProxy{InvalidInput: by, Message: "open " + path + denied}
		if f := egress(want); len(f) == 1 && !strings.Contains(f[0].Says, path+denied) {
			t.Errorf("it says %q", f[0].Says)
		}
	}
}
