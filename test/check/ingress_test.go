// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/http01-proxyd/http01-proxyd/test/lab"
)

// pki is what the lab's servers are known by.
type pki struct {
	root, between *lab.Authority // of the router: its chain has the intermediate
	other         *lab.Authority
}

func newPKI(t *testing.T) (p pki) {
	t.Helper()
	var err error
	p.root, err = lab.NewAuthority("Lab Root CA")
	must(t, err)
	p.between, err = p.root.Intermediate("Lab Intermediate CA")
	must(t, err)
	p.other, err = lab.NewAuthority("Other CA")
	must(t, err)
	return p
}

func identity(t *testing.T, by *lab.Authority, c lab.ServerCertificate) *lab.Identity {
	t.Helper()
	i, err := by.Issue(c)
	must(t, err)
	return &i
}

// apps is what OpenShift's router presents, whatever name it is asked for.
func (p pki) apps(t *testing.T) *lab.Identity {
	t.Helper()
	return identity(t, p.between, lab.ServerCertificate{Names: []string{"*.apps.lab.test"}})
}

// here has the node on which check runs have more of a configuration until the test
// ends.
func (c *cluster) here(more string) {
	c.t.Helper()
	n := c.standby()
	must(c.t, n.WriteConfig(n.DefaultConfig()+more))
	c.heal(func(context.Context) error { return n.WriteConfig(n.DefaultConfig()) })
}

// trusting is the section upstream with a bundle of these CAs, and other keys.
func (c *cluster) trusting(keys string, authorities ...*lab.Authority) string {
	c.t.Helper()
	var text []byte
	for _, a := range authorities {
		text = append(text, a.Certificate()...)
	}
	path := filepath.Join(c.t.TempDir(), "ca-bundle.crt")
	must(c.t, os.WriteFile(path, text, 0o600))
	return fmt.Sprintf("upstream: {%s, trustedCA: %q, verifyNames: [\"*.apps.lab.test\"]}\n", keys, path)
}

// router has the router be another until the test ends.
func (c *cluster) router(o lab.RouterOptions) {
	c.t.Helper()
	must(c.t, c.Worker.StopRouter(c.t.Context()))
	c.heal(func(ctx context.Context) error {
		if err := c.Worker.StopRouter(ctx); err != nil {
			return err
		}
		return c.Worker.StartRouter(ctx, lab.RouterOptions{})
	})
	must(c.t, c.Worker.StartRouter(c.t.Context(), o))
}

// redirectsToHTTPS has the router do what a route with
// insecureEdgeTerminationPolicy: Redirect has it do.
func redirectsToHTTPS(c *cluster) {
	c.t.Helper()
	end, err := c.Worker.RedirectToHTTPS(c.t.Context(), apiName)
	must(c.t, err)
	c.heal(end)
}

// redirects has the router lead all of the API's name to one place, with secure
// also when asked by TLS.
func (c *cluster) redirects(location string, secure bool) {
	c.t.Helper()
	end, err := c.Worker.RedirectElsewhere(c.t.Context(), apiName, location, secure)
	must(c.t, err)
	c.heal(end)
}

const https = "scheme: https"

// TestIngressByTLS: a router that is asked by TLS, by the configuration or because it
// redirects there.
func TestIngressByTLS(t *testing.T) {
	c := healthy(t, nil)
	p := newPKI(t)
	now := time.Now()
	apps := []string{"*.apps.lab.test"}
	old := identity(t, p.between, lab.ServerCertificate{Names: apps, NotBefore: now.Add(-48 * time.Hour), NotAfter: now.Add(-time.Hour)})
	presents := func(i *lab.Identity, keys string, trusted ...*lab.Authority) func(*cluster) {
		return func(c *cluster) {
			c.router(lab.RouterOptions{Secure: i})
			c.here(c.trusting(keys, trusted...))
		}
	}
	also := func(inject func(*cluster), more func(*cluster)) func(*cluster) {
		return func(c *cluster) { inject(c); more(c) }
	}
	c.all(t, []fault{
		{name: "by TLS", want: []string{}, inject: presents(p.apps(t), https, p.root)},
		{name: "redirected to TLS", want: []string{}, inject: also(presents(p.apps(t), "followRedirects: true", p.root), redirectsToHTTPS)},
		{
			name: "a CA that is not trusted", want: []string{"ingress-tls-untrusted"}, inject: presents(p.apps(t), https, p.other),
			says: map[string]string{"ingress-tls-untrusted": `"CN=lab server", issued by "CN=Lab Intermediate CA", leads to none of the CA of `},
		},
		{
			name: "a CA that is not trusted, after a redirect", want: []string{"ingress-tls-untrusted"},
			inject: also(presents(p.apps(t), "followRedirects: true", p.other), redirectsToHTTPS),
			says:   map[string]string{"ingress-tls-untrusted": "192.0.2.6:443"},
		},
		{
			name: "another name", want: []string{"ingress-tls-name"},
			inject: presents(identity(t, p.between, lab.ServerCertificate{Names: []string{"other.example.com"}}), https, p.root),
			says:   map[string]string{"ingress-tls-name": `is for "other.example.com", and not for "api.lab.test" and "*.apps.lab.test"`},
		},
		{
			name: "an expired certificate", want: []string{"ingress-tls-expired"}, inject: presents(old, https, p.root),
			says: map[string]string{"ingress-tls-expired": "has expired on"},
		},
		{
			name: "no TLS at that port", want: []string{"ingress-tls-handshake"}, inject: presents(p.apps(t), https+", httpsPort: 1936", p.root),
			says: map[string]string{"ingress-tls-handshake": "192.0.2.6:1936"},
		},
		{
			name: "redirected to where nobody listens", want: []string{"ingress-refused"},
			inject: also(presents(nil, "followRedirects: true", p.root), redirectsToHTTPS),
		},
		{
			name: "redirected to the same again and again", flags: []string{"--token", token}, want: []string{"route-redirect-loops"},
			inject: also(presents(p.apps(t), "followRedirects: true", p.root), func(c *cluster) {
				c.redirects("https://"+apiName+acmePath+token, true)
			}),
		},
		{
			name: "redirected to another host", want: []string{"route-redirects-elsewhere"},
			inject: also(presents(p.apps(t), https, p.root), func(c *cluster) { c.redirects("https://elsewhere.lab.test/", true) }),
			says:   map[string]string{"route-redirects-elsewhere": "(Location: https://elsewhere.lab.test/)"},
		},
		{
			name: "a bundle that is refused, and never was good", want: []string{"trust-none"},
			inject: func(c *cluster) {
				c.withoutTLS() // or it keeps what it trusts meanwhile
				forgetTrust(c.t, c.standby())
				presents(p.apps(t), https)(c)
			},
		},
	})
}

// withoutTLS has the service trust nobody, on the node on which check runs.
func (c *cluster) withoutTLS() {
	c.t.Helper()
	c.here("upstream: {followRedirects: false}\n")
	_, err := c.Services[2].Await(c.t.Context(), "TLS to be out of use", func(seen lab.Status) error {
		if found := seen.ConditionOf("UpstreamTrustReady"); found.Reason != "NotRequired" {
			return fmt.Errorf("UpstreamTrustReady is %s: %s", found.Reason, found.Message)
		}
		return nil
	})
	must(c.t, err)
}

// forgetTrust removes what a service has kept of the last good bundle.
func forgetTrust(t *testing.T, n *lab.Node) {
	t.Helper()
	must(t, os.RemoveAll(filepath.Join(filepath.Dir(n.APIServerURL()), "state", "last-good-ca-bundle.crt")))
}

// TestPROXYProtocol: one side speaks it and the other does not, and both do.
func TestPROXYProtocol(t *testing.T) {
	c := healthy(t, nil)
	expects := func(o lab.RouterOptions, version string) func(*cluster) {
		return func(c *cluster) {
			c.router(o)
			c.here("upstream: {proxyProtocol: " + version + "}\n")
		}
	}
	var faults []fault
	for _, version := range []string{"v1", "v2"} {
		faults = append(faults,
			fault{name: version, want: []string{}, inject: expects(lab.RouterOptions{ProxyProtocol: true}, version)},
			fault{name: version + " that is not expected", want: []string{"ingress-proxy-protocol"}, inject: expects(lab.RouterOptions{}, version)})
	}
	c.all(t, faults)
	t.Run("expected while it is off", func(t *testing.T) {
		c := c.with(t)
		c.router(lab.RouterOptions{ProxyProtocol: true})
		// HAProxy closes before it has read what there is: the kernel makes a reset of
		// that, unless the end overtakes it.
		r, code := c.check(c.standby())
		for _, id := range r.IDs() {
			if id != "ingress-reset" && id != "ingress-closed" {
				t.Errorf("found: %s", id)
			}
			c.says(r, id, "set upstream.proxyProtocol to v2 or v1")
		}
		if code != 1 {
			t.Errorf("exit code %d: %+v", code, r)
		}
	})
}

// TestTokenByRedirect follows a challenge to a router that redirects to https: the
// trace ends with the key, as at the CA.
func TestTokenByRedirect(t *testing.T) {
	p := newPKI(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "ca-bundle.crt")
	must(t, os.WriteFile(path, p.root.Certificate(), 0o600))
	c := healthy(t, func(n *lab.Node) string {
		return n.DefaultConfig() + fmt.Sprintf("upstream: {trustedCA: %q, verifyNames: [\"*.apps.lab.test\"]}\n", path)
	})
	c.router(lab.RouterOptions{Secure: p.apps(t)})
	redirectsToHTTPS(c)
	s, err := c.Solve(t.Context(), apiName, token, token+"."+thumbprint)
	must(t, err)
	c.heal(s.Remove)
	r := c.exactly(c.standby(), []string{}, "--token", token)
	for _, hop := range r.Trace {
		if hop.Outcome != "ok" || hop.Hop == "ingress" && !strings.HasSuffix(hop.To, ":443") {
			t.Errorf("%+v", hop)
		}
	}
	text, _, err := c.standby().CheckText(t.Context(), shared.binary, "--token", token)
	must(t, err)
	t.Log(text)
}
