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

// TestServiceReportTakesPrecedence: files that this process takes, being root, and the service
// does not. What the service says is the finding.
func TestServiceReportTakesPrecedence(t *testing.T) {
	t.Parallel()
	h := &host{privileged: true, config: config.Default()}
	bundle := writeFile(t, "") // a text that is refused here for another reason
	h.config.Upstream.TrustedCA = bundle
	h.config.EgressProxy.File = writeFile(t, "HTTP_PROXY=http://192.0.2.9:3128\n")
	h.ProxyEnvFile, h.StateDir = filepath.Join(t.TempDir(), "none"), t.TempDir()
	const denied = ": permission denied: the service does not run as root: make the file world-readable (chmod 0644)"
	var said report.Report
	var unheard error
	h.report = func() (report.Report, error) { return said, unheard }
	h.observed = &observations{trust: startFuture(h.readTrust)}
	trust := func(want findings.ID, says string) {
		t.Helper()
		got := checkTrust(t.Context(), h)
		if len(got.Findings) != 1 || got.Findings[0].ID != want || !strings.Contains(got.Findings[0].Message, says) {
			t.Errorf("want %s with %q: %+v", want, says, got)
		}
	}
	said.Trust = report.Trust{Kind: report.TrustNone, Path: bundle, Error: "open " + bundle + denied}
	trust(findings.NoTrustedCA, "(chmod 0644)")
	said.Trust.Kind = report.TrustLastGood
	trust(findings.CABundleInvalid, "(chmod 0644)")
	said.Trust.Path = "/of/a/former/configuration"
	trust(findings.NoTrustedCA, "the file is empty")
	unheard = errors.New("it does not run")
	trust(findings.NoTrustedCA, "the file is empty")

	egress := func(want ...findings.ID) []findings.Finding {
		t.Helper()
		matches := checkEgressProxy(t.Context(), h).Findings
		var ids []findings.ID
		for _, f := range matches {
			ids = append(ids, f.ID)
		}
		if !slices.Equal(ids, want) {
			t.Errorf("want %q: %+v", want, matches)
		}
		return matches
	}
	h.config.EgressProxy.TrustedCA = writeFile(t, "")
	egress(findings.EgressNoReadinessEndpoints)
	unheard = nil
	for by, want := range map[report.EgressInput]findings.ID{report.EgressInputFile: findings.ProxyFileInvalid, report.EgressInputTrustedCA: findings.EgressCAInvalid} {
		path := map[report.EgressInput]string{report.EgressInputFile: h.config.EgressProxy.File, report.EgressInputTrustedCA: h.config.EgressProxy.TrustedCA}[by]
		said.EgressProxy = report.EgressProxy{InvalidInput: by, Message: "open " + path + denied}
		if f := egress(want); len(f) == 1 && !strings.Contains(f[0].Message, path+denied) {
			t.Errorf("it says %q", f[0].Message)
		}
	}
}
