// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// trustCondition is the condition that reports whether the configured bundle is in use.
const trustCondition = "UpstreamTrustReady"

// TestBundleChanges holds that the CAs of a changed file take effect without a restart,
// however the file is changed. An invalid bundle changes only the condition.
func TestBundleChanges(t *testing.T) {
	p := newFixture(t)
	p.restartRouter(t, lab.RouterOptions{Secure: p.appsIdentity(t)})
	good, other := lab.Bundle(shared.pki.root), lab.Bundle(shared.pki.second)
	path := p.writeHostFile(t, "ca-bundle.crt", good)
	s := p.serve(t, p.holder().DefaultConfig()+p.upstreamAt(https, path))
	p.awaitTrust(t, s, true)

	for _, tt := range []struct {
		name  string
		write func(t *testing.T, path string, text []byte)
	}{
		{"rename", replaceFile},
		{
			"write in place",
			func(t *testing.T, path string, text []byte) { t.Helper(); must(t, os.WriteFile(path, text, 0o600)) },
		},
		{"symlink flip", flipSymlink},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.write(t, path, other)
			p.awaitTrust(t, s, false)
			tt.write(t, path, good)
			p.awaitTrust(t, s, true)
			p.awaitTrustReason(t, s, "True", "Loaded")
		})
	}
	replaceFile(t, path, good)
	signer, err := shared.pki.second.Identity()
	must(t, err)
	for _, tt := range []struct {
		name string
		text []byte
	}{
		{"half written", good[:len(good)/2]},
		{"with a private key", slices.Concat(other, signer.Key)},
		{"not a CA", p.appsIdentity(t).Chain[:strings.Index(string(p.appsIdentity(t).Chain), "-----END")]},
	} {
		t.Run("refused: "+tt.name, func(t *testing.T) {
			replaceFile(t, path, tt.text)
			p.awaitTrustReason(t, s, "False", "")
			p.awaitTrust(t, s, true)
			replaceFile(t, path, good)
			p.awaitTrustReason(t, s, "True", "Loaded")
		})
	}
	t.Run("unreadable", func(t *testing.T) {
		must(t, os.Remove(path))
		must(t, os.Mkdir(path, 0o700))
		p.awaitTrustReason(t, s, "False", "")
		p.awaitTrust(t, s, true)
		must(t, os.Remove(path))
		must(t, os.WriteFile(path, good, 0o600))
		p.awaitTrustReason(t, s, "True", "Loaded")
	})
	t.Run("deleted", func(t *testing.T) {
		must(t, os.Remove(path))
		p.awaitTrustReason(t, s, "True", "SystemTrust")
		p.awaitTrust(t, s, false)
		replaceFile(t, path, good)
		p.awaitTrust(t, s, true)
	})
	t.Run("no private key in the journal", func(t *testing.T) {
		journal, err := os.ReadFile(s.Log)
		must(t, err)
		for _, line := range strings.Split(strings.TrimSpace(string(signer.Key)), "\n") {
			if !strings.HasPrefix(line, "--") && strings.Contains(string(journal), line) {
				t.Errorf("the journal has a line of a private key")
			}
		}
	})
}

// upstreamAt returns the section upstream with additional lines and a bundle.
func (p *fixture) upstreamAt(lines, bundle string) string {
	return fmt.Sprintf("upstream:\n%s  trustedCA: %s\n  verifyNames: [\"*.apps.%s\"]\n", lines, bundle, p.Domain)
}

// awaitTrust waits until the router is trusted, or is not, with and without a pooled
// connection.
func (p *fixture) awaitTrust(t *testing.T, s *lab.Service, want bool) {
	t.Helper()
	begin := time.Now()
	if want {
		p.awaitAnswer(t, s, "is-it-trusted", "HTTP/1.1 503 ", "HTTP/1.1 200 ")
	} else {
		p.awaitAnswer(t, s, "is-it-trusted", "HTTP/1.1 502 ")
	}
	t.Logf("in use after %v", time.Since(begin).Round(time.Millisecond))
}

// awaitTrustReason waits for the condition of the bundle. An empty reason matches any.
func (p *fixture) awaitTrustReason(t *testing.T, s *lab.Service, status, reason string) {
	t.Helper()
	seen := p.awaitCondition(t, s, trustCondition, status, reason)
	if status == "False" && !strings.Contains(seen.Message, "ca-bundle.crt") {
		t.Errorf("the message does not name the file: %s", seen.Message)
	}
}

// flipSymlink replaces the text behind two symbolic links as in a mounted ConfigMap: only
// the inner link changes.
func flipSymlink(t *testing.T, path string, text []byte) {
	t.Helper()
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "text"), text, 0o600))
	inner := filepath.Join(filepath.Dir(path), "..data")
	must(t, os.Symlink(dir, inner+".new"))
	must(t, os.Rename(inner+".new", inner))
	if target, err := os.Readlink(path); err == nil && target == filepath.Join("..data", "text") {
		return
	}
	must(t, os.Symlink(filepath.Join("..data", "text"), path+".new"))
	must(t, os.Rename(path+".new", path))
}
