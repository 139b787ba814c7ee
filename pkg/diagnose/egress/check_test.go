// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"net/netip"
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
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	e := Settings{Config: config.Default(), EnvFile: filepath.Join(dir, "none"), StateDir: dir, Privileged: true}
	e.Config.EgressProxy.File = write("proxy.env", "HTTP_PROXY=http://192.0.2.9:3128\n")
	e.Config.EgressProxy.TrustedCA = write("ca.crt", "")
	const denied = ": permission denied: the service does not run as root: make the file world-readable (chmod 0644)"
	for _, tt := range []struct {
		input report.EgressInput
		path  string
		want  findings.ID
	}{
		{report.EgressInputFile, e.Config.EgressProxy.File, findings.ProxyFileInvalid},
		{report.EgressInputTrustedCA, e.Config.EgressProxy.TrustedCA, findings.EgressCAInvalid},
	} {
		reported := report.EgressProxy{Upstream: "auto", InvalidInput: tt.input, InvalidFile: tt.path, Message: "open " + tt.path + denied}
		matches := e.Check([]string{"api.lab.test"}, reported).Findings
		if len(matches) != 1 || matches[0].ID != tt.want || !strings.Contains(matches[0].Message, tt.path+denied) {
			t.Errorf("want %s: %+v", tt.want, matches)
		}
	}
	unreachable := report.EgressProxy{
		Upstream: "auto", Routes: []report.EgressRoute{{Ingress: "192.0.2.6:80", Error: "no answer"}},
	}
	if r := e.Check([]string{"api.lab.test"}, unreachable); len(r.Findings) > 0 {
		t.Errorf("the check of the ingress reports it: %+v", r.Findings)
	}
}

// TestMemoize: two ports of an ingress use one egress proxy.
func TestMemoize(t *testing.T) {
	t.Parallel()
	queries := 0
	lookup := memoize(func(string) []netip.Addr { queries++; return nil })
	lookup("a")
	lookup("a")
	lookup("b")
	if queries != 2 {
		t.Errorf("%d queries", queries)
	}
}
