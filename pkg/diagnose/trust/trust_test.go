// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"os"
	"path/filepath"
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
	bundle := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(bundle, nil, 0o600); err != nil { // invalid here for another reason
		t.Fatal(err)
	}
	c := config.Default()
	c.Upstream.TrustedCA = bundle
	sources := Read(c, t.TempDir(), true)
	const denied = ": permission denied: the service does not run as root: make the file world-readable (chmod 0644)"
	failed := report.Trust{Kind: report.TrustNone, Path: bundle, Error: "open " + bundle + denied}
	kept, other := failed, failed
	kept.Kind, other.Path = report.TrustLastGood, "/of/a/former/configuration"
	for _, tt := range []struct {
		reported report.Trust
		want     findings.ID
		message  string
	}{
		{failed, findings.NoTrustedCA, "(chmod 0644)"},
		{kept, findings.CABundleInvalid, "(chmod 0644)"},
		{other, findings.NoTrustedCA, "the file is empty"},
		{report.Trust{}, findings.NoTrustedCA, "the file is empty"},
	} {
		got := sources.Check(tt.reported)
		if len(got.Findings) != 1 || got.Findings[0].ID != tt.want || !strings.Contains(got.Findings[0].Message, tt.message) {
			t.Errorf("want %s with %q: %+v", tt.want, tt.message, got)
		}
	}
}
