// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// TestEgressReadiness configures an egress proxy on which nothing listens: the host itself
// refuses the connection.
func TestEgressReadiness(t *testing.T) {
	c := healthy(t, nil)
	n := c.holder()
	ca := filepath.Join(t.TempDir(), "proxy-ca.crt")
	must(t, os.WriteFile(ca, []byte("-----BEGIN CERTIFICATE-----\nMII"), 0o600))
	proxy := fmt.Sprintf("http://user:s3cret@%v:3128", n.Addresses.V4)
	configured := func(keys string) string {
		return n.DefaultConfig() + fmt.Sprintf("hosts: [api.lab.test]\negressProxy: {httpProxy: %q, %s}\n", proxy, keys)
	}
	// expect waits until the service reports the effect of a configuration.
	expect := func(t *testing.T, config, id string) lab.CheckReport {
		t.Helper()
		must(t, n.WriteConfig(config))
		must(t, eventually(t, func() error {
			if r, _ := c.check(n, "--name", "api.lab.test"); !slices.Equal(r.IDs(), []string{id}) {
				return fmt.Errorf("check finds %q", r.IDs())
			}
			return nil
		}))
		return c.expectFindings(n, []string{id}, "--name", "api.lab.test")
	}
	const endpoint = "readinessEndpoints: [\"http://ready.lab.test/\"]"
	for _, tt := range []struct {
		name, config string
		id, level    string
		texts        []string
	}{
		{
			"not ready, and not used", configured(endpoint), "egress-not-ready", "warning",
			[]string{
				"http://xxxxx@", "from configuration", "http://ready.lab.test/ is not ready", "refused",
				"Until then, no egress proxy is used",
			},
		},
		{"not ready", configured(endpoint + ", upstream: auto"), "egress-not-ready", "problem", nil},
		{
			"a CA bundle that is cut short", configured(endpoint + ", upstream: auto, trustedCA: " + ca), "egress-ca-invalid",
			"problem",
			[]string{ca, "spec.trustedCA of proxy/cluster"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := expect(t, tt.config, tt.id)
			c.expectText(r, tt.id, tt.texts...)
			if text := fmt.Sprintf("%+v", r); strings.Contains(text, "s3cret") || r.Outcome != tt.level {
				t.Errorf("the outcome is %s, want %s, without credentials:\n%s", r.Outcome, tt.level, text)
			}
		})
	}
	t.Run("a file that is refused", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "other.env")
		must(t, os.WriteFile(path, []byte("# one\nHTTP_PROXY=\"http://user:s3cret@proxy"), 0o600))
		r := expect(t, n.DefaultConfig()+"egressProxy: {file: "+path+"}\n", "proxy-file-invalid")
		c.expectText(r, "proxy-file-invalid", path, "line 2")
	})
}
