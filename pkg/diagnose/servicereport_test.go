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

// TestServiceReportTakesPrecedence: root can read files that the service cannot. The
// finding follows the service's report.
func TestServiceReportTakesPrecedence(t *testing.T) {
	t.Parallel()
	h := &host{privileged: true, config: config.Default()}
	bundle := writeFile(t, "") // invalid here for another reason
	h.config.Upstream.TrustedCA = bundle
	h.config.EgressProxy.File = writeFile(t, "HTTP_PROXY=http://192.0.2.9:3128\n")
	h.ProxyEnvFile, h.StateDir = filepath.Join(t.TempDir(), "none"), t.TempDir()
	const denied = ": permission denied: the service does not run as root: make the file world-readable (chmod 0644)"
	var reported report.Report
	var reportErr error
	h.report = func() (report.Report, error) { return reported, reportErr }
	h.observed = &observations{trust: newFuture(h.readTrust)}
	h.observed.trust.start()
	trust := func(want findings.ID, message string) {
		t.Helper()
		got := checkTrust(t.Context(), h)
		if len(got.Findings) != 1 || got.Findings[0].ID != want || !strings.Contains(got.Findings[0].Message, message) {
			t.Errorf("want %s with %q: %+v", want, message, got)
		}
	}
	reported.Trust = report.Trust{Kind: report.TrustNone, Path: bundle, Error: "open " + bundle + denied}
	trust(findings.NoTrustedCA, "(chmod 0644)")
	reported.Trust.Kind = report.TrustLastGood
	trust(findings.CABundleInvalid, "(chmod 0644)")
	reported.Trust.Path = "/of/a/former/configuration"
	trust(findings.NoTrustedCA, "the file is empty")
	reportErr = errors.New("not running")
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
	reportErr = nil
	for by, want := range map[report.EgressInput]findings.ID{report.EgressInputFile: findings.ProxyFileInvalid, report.EgressInputTrustedCA: findings.EgressCAInvalid} {
		path := map[report.EgressInput]string{report.EgressInputFile: h.config.EgressProxy.File, report.EgressInputTrustedCA: h.config.EgressProxy.TrustedCA}[by]
		reported.EgressProxy = report.EgressProxy{InvalidInput: by, Message: "open " + path + denied}
		if f := egress(want); len(f) == 1 && !strings.Contains(f[0].Message, path+denied) {
			t.Errorf("message %q", f[0].Message)
		}
	}
}
