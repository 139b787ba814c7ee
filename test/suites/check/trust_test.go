// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// TestTrustedCA uses CA files that the service rejects or accepts in part. Its conditions
// and check report the same.
func TestTrustedCA(t *testing.T) {
	c := healthy(t, nil)
	n := c.holder()
	bundle := filepath.Join(n.Dir, "trust", "ca-bundle.crt")
	must(t, os.MkdirAll(filepath.Dir(bundle), 0o750))
	t.Cleanup(func() { _ = os.RemoveAll(filepath.Dir(bundle)) })
	write := func(t *testing.T, text string) {
		t.Helper()
		must(t, os.WriteFile(bundle, []byte(text), 0o600))
	}
	expired, err := lab.NewAuthorityUntil("Old CA", time.Now().Add(-time.Hour))
	must(t, err)
	root, err := lab.NewAuthority("Lab Root CA")
	must(t, err)
	apps, err := root.Issue(lab.ServerCertificate{Names: []string{"*.apps.lab.test"}})
	must(t, err)
	c.replaceRouter(func() { must(t, c.Worker.StartRouter(t.Context(), lab.RouterOptions{Secure: &apps})) })
	good, old := string(root.Certificate()), string(expired.Certificate())
	// Another test may have left a last good bundle. The running service has the host's CAs as
	// its last good ones, also in memory: only a service that starts with the bundle has none.
	must(t, os.RemoveAll(filepath.Join(filepath.Dir(n.APIServerURL()), "state", "last-good-ca-bundle.crt")))
	write(t, "nothing")
	c.restartService(lab.ServiceOptions{
		Config: n.DefaultConfig() +
			fmt.Sprintf("upstream: {scheme: https, trustedCA: %q, verifyNames: [\"*.apps.lab.test\"]}\n", bundle),
	}, "Serving")
	for _, tt := range []struct {
		name, text, reason string
		ids, texts         []string
	}{
		{
			"never a valid bundle", "nothing", "NothingTrusted",
			[]string{"no-trusted-ca"},
			[]string{bundle + ": the file contains no certificate"},
		},
		{"one left out", good + old, "Loaded", []string{"ca-bundle-partial"}, []string{
			`"CN=Old CA", serial `,
			`: expired on `,
		}},
		{
			"refused", "nothing", "Rejected",
			[]string{"ca-bundle-invalid"},
			[]string{bundle + ": the file contains no certificate"},
		},
		{"nothing left", old, "NoUsableCertificate", []string{"ca-bundle-invalid"}, []string{
			"the previous CAs stay trusted",
			`"CN=Old CA"`,
		}},
		{"good", good, "Loaded", []string{}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			write(t, tt.text)
			_, err := c.Services[0].AwaitCondition(t.Context(), "UpstreamTrustReady", tt.reason)
			must(t, err)
			r := c.expectFindings(n, tt.ids)
			for _, id := range tt.ids {
				c.expectText(r, id, tt.texts...)
			}
		})
	}
	c.configure(n.DefaultConfig(), "Serving")
}
