// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// diagnosisCase is a fault in the upstream route and its expected diagnosis.
type diagnosisCase struct {
	name    string
	router  lab.RouterOptions
	set     func(t *testing.T, p *fixture) // further setup; may be nil
	config  func(t *testing.T, p *fixture) string
	cause   string   // alternatives are separated by |
	status  int      // status for the client
	details []string // parts of the diagnosis
	passes  string   // part of the router's answer that is forwarded
	finds   string   // finding of check, or alternatives separated by |; check does not run when empty
	text    string   // part of that finding
}

// runDiagnoses runs each case over both families.
func (p *fixture) runDiagnoses(t *testing.T, troubles []diagnosisCase) {
	t.Helper()
	for _, tt := range troubles {
		t.Run(tt.name, func(t *testing.T) {
			p.restartRouter(t, tt.router)
			if tt.set != nil {
				tt.set(t, p)
			}
			s := p.serve(t, tt.config(t, p), "UpstreamUnreachable") // as soon as the service has tried the ingress
			p.forEachFamily(t, func(t *testing.T, vip netip.Addr) {
				t.Helper()
				token := fmt.Sprintf("%d-without-answer", vip.BitLen()+100000000)
				answer := p.requestChallenge(t, vip, token)
				c := awaitChallenge(t, s, token)
				if !slices.Contains(strings.Split(tt.cause, "|"), c.Cause) {
					t.Errorf("cause %q, want %q: %+v", c.Cause, tt.cause, c)
				}
				if !strings.HasPrefix(answer, fmt.Sprintf("HTTP/1.1 %d ", tt.status)) || !strings.Contains(answer, tt.passes) {
					t.Errorf("answer %.200q, want status %d %s", answer, tt.status, tt.passes)
				}
				for _, part := range tt.details {
					if !strings.Contains(c.Detail, part) {
						t.Errorf("no %q in the diagnosis: %s", part, c.Detail)
					}
				}
				journal, err := os.ReadFile(s.Log)
				must(t, err)
				if !strings.Contains(string(journal), c.Cause) {
					t.Errorf("the journal does not name %s", c.Cause)
				}
			})
			if tt.finds == "" {
				return
			}
			ids := strings.Split(tt.finds, "|")
			r := p.check(t, ids)
			for _, id := range ids {
				for _, withDetails := range r.Texts(id) {
					if !strings.Contains(withDetails, tt.text) {
						t.Errorf("%s: text %q, want %q", id, withDetails, tt.text)
					}
				}
			}
		})
	}
}

// directConfig returns a configuration for the ingress VIPs with lines of the section
// upstream and a bundle.
func directConfig(upstream string, trusted ...*lab.Authority) func(*testing.T, *fixture) string {
	return func(t *testing.T, p *fixture) string {
		t.Helper()
		return p.holder().DefaultConfig() + p.upstreamConfig(t, upstream, trusted...)
	}
}

// upstreamConfig returns the section upstream with additional lines, the bundle, and the
// names of OpenShift's router. Without CAs the bundle's file does not exist.
func (p *fixture) upstreamConfig(t *testing.T, lines string, trusted ...*lab.Authority) string {
	t.Helper()
	path := p.writeHostFile(t, "ca-bundle.crt", lab.Bundle(trusted...))
	if len(trusted) == 0 {
		must(t, os.Remove(path))
	}
	return p.upstreamAt(lines, path)
}

func redirectsToHTTPS(t *testing.T, p *fixture) {
	t.Helper()
	end, err := p.Worker.RedirectToHTTPS(t.Context(), apiName)
	must(t, err)
	t.Cleanup(func() { must(t, end(context.Background())) })
}

// redirectTo makes the router redirect every path to one location.
func redirectTo(location string, secure bool) func(*testing.T, *fixture) {
	return func(t *testing.T, p *fixture) {
		t.Helper()
		end, err := p.Worker.RedirectElsewhere(t.Context(), apiName, location, secure)
		must(t, err)
		t.Cleanup(func() { must(t, end(context.Background())) })
	}
}

const https = "  scheme: https\n"

// TestTLSDiagnoses uses invalid router certificates and a port without TLS.
func TestTLSDiagnoses(t *testing.T) {
	p := newFixture(t)
	now := time.Now()
	apps := []string{"*.apps." + p.Domain}
	presents := func(by *lab.Authority, c lab.ServerCertificate) lab.RouterOptions {
		return lab.RouterOptions{Secure: issue(t, by, c)}
	}
	own := shared.pki
	p.runDiagnoses(t, []diagnosisCase{
		{
			name: "a CA that is not in the bundle", router: presents(own.intermediate, lab.ServerCertificate{Names: apps}),
			config: directConfig(https, own.second), cause: "ingress-tls-untrusted", finds: "ingress-tls-untrusted", status: 502,
			details: []string{"Lab Intermediate CA", "Lab Second CA", "ca-bundle.crt"},
			text:    `"lab server", issued by "Lab Intermediate CA", is not signed by a trusted CA; trusted: the CA of `,
		},
		{
			name: "a private CA and the system's trust", router: presents(own.intermediate, lab.ServerCertificate{Names: apps}),
			config: directConfig(https), cause: "ingress-tls-untrusted", finds: "ingress-tls-untrusted", status: 502,
			details: []string{"Lab Intermediate CA", "trustedCA"},
		},
		{
			name: "names that cover nothing", router: presents(own.intermediate,
				lab.ServerCertificate{Names: []string{"other.example.com"}}),
			config: directConfig(https, own.root), cause: "ingress-tls-name", finds: "ingress-tls-name", status: 502,
			details: []string{"other.example.com", "verifyNames"},
			text:    `is for "other.example.com", and not for "api.lab.test" and "*.apps.lab.test"`,
		},
		{
			name: "expired", router: presents(own.intermediate, lab.ServerCertificate{
				Names:     apps,
				NotBefore: now.Add(-48 * time.Hour), NotAfter: now.Add(-time.Hour),
			}),
			config: directConfig(https, own.root), cause: "ingress-tls-expired", finds: "ingress-tls-expired", status: 502,
			text: "has expired on",
		},
		{
			name: "no TLS at that port", router: presents(own.intermediate, lab.ServerCertificate{Names: apps}),
			config: directConfig(https+"  httpsPort: 1936\n", own.root), cause: "ingress-tls-handshake",
			finds: "ingress-tls-handshake", status: 502, details: []string{":1936"},
			text: "192.0.2.6:1936",
		},
		{
			name: "expired, behind a redirect", set: redirectsToHTTPS,
			router: presents(own.intermediate, lab.ServerCertificate{
				Names: apps, NotBefore: now.Add(-48 * time.Hour),
				NotAfter: now.Add(-time.Hour),
			}),
			config: directConfig("", own.root), cause: "ingress-tls-expired", finds: "ingress-tls-expired", status: 502,
			text: "192.0.2.6:443",
		},
	})
}

// TestRedirectDiagnoses holds that a redirect that is not followed is forwarded unchanged.
func TestRedirectDiagnoses(t *testing.T) {
	p := newFixture(t)
	secure := lab.RouterOptions{Secure: p.appsIdentity(t)}
	elsewhere := func(name, location string) diagnosisCase {
		return diagnosisCase{
			name: name, router: secure, set: redirectTo(location, false), config: directConfig("", shared.pki.root),
			cause: "route-redirects-elsewhere", finds: "route-redirects-elsewhere", status: 302, passes: "location: " +
				location + "\r\n", details: []string{"redirects the challenge to "},
			text: "(its Location is \"" + location + "\")",
		}
	}
	p.runDiagnoses(t, []diagnosisCase{
		elsewhere("to another host", "https://elsewhere.lab.test"+acmePath),
		elsewhere("to another port", "https://"+apiName+":8443"+acmePath),
		elsewhere("to another scheme", "ftp://"+apiName+acmePath),
		{
			name: "redirects are not followed", router: secure, set: redirectsToHTTPS,
			config: directConfig("  followRedirects: false\n", shared.pki.root), cause: "route-redirects-https",
			finds: "route-redirects-https", status: 302,
		},
		{
			name: "no listener", set: redirectsToHTTPS,
			config: directConfig("", shared.pki.root), cause: "ingress-refused", status: 502, details: []string{":443"},
			finds: "ingress-refused", text: ":443) refuses connections",
		},
	})
}

// TestRedirectLoop holds that the service follows one redirect to https of the same URL and
// then forwards the answer.
func TestRedirectLoop(t *testing.T) {
	p := newFixture(t)
	p.restartRouter(t, lab.RouterOptions{Secure: p.appsIdentity(t)})
	const token = "redirected-in-a-loop"
	redirectTo("https://"+apiName+acmePath+token, true)(t, p)
	s := p.serve(t, directConfig("", shared.pki.root)(t, p))
	answer := p.requestChallenge(t, p.API.V4, token)
	c := awaitChallenge(t, s, token)
	if c.Cause != "route-redirect-loop" || !strings.HasPrefix(answer, "HTTP/1.1 302 ") {
		t.Errorf("cause %q, want redirect-loop and the redirect: %.100q %+v", c.Cause, answer, c)
	}
	log, err := p.Worker.RouterLog()
	must(t, err)
	if n := strings.Count(log, token); n != 2 {
		t.Errorf("%d requests at the router, want 2:\n%s", n, log)
	}
	p.check(t, []string{"route-redirect-loop"}, "--token", token)
}

// TestProxyProtocolDiagnoses uses the PROXY protocol on one side only.
func TestProxyProtocolDiagnoses(t *testing.T) {
	p := newFixture(t)
	secure := p.appsIdentity(t)
	// HAProxy closes before it reads all data, so the kernel sends a reset unless the
	// end arrives first.
	const closes = "ingress-closed-connection|ingress-reset-connection"
	unexpected := func(version string) diagnosisCase {
		return diagnosisCase{
			name: version + " that is not expected", config: directConfig("  proxyProtocol: " + version + "\n"),
			cause: "ingress-proxy-protocol", finds: "ingress-proxy-protocol", status: 400,
			details: []string{"upstream.proxyProtocol"},
		}
	}
	p.runDiagnoses(t, []diagnosisCase{
		{
			name: "expected while it is off", router: lab.RouterOptions{ProxyProtocol: true},
			config: directConfig(""), cause: closes, finds: "ingress-closed-connection|ingress-reset-connection", status: 502,
			details: []string{"upstream.proxyProtocol"},
			text:    "set upstream.proxyProtocol to v2 or v1",
		},
		unexpected("v1"),
		unexpected("v2"),
		{
			name: "expected before TLS while it is off", router: lab.RouterOptions{ProxyProtocol: true, Secure: secure},
			config: directConfig(https, shared.pki.root), cause: closes, finds: closes, status: 502,
			details: []string{"upstream.proxyProtocol"},
			text:    "set upstream.proxyProtocol to v2 or v1",
		},
		{
			name: "not expected before TLS", router: lab.RouterOptions{Secure: secure},
			config: directConfig(https+"  proxyProtocol: v2\n", shared.pki.root), cause: "ingress-tls-handshake|" + closes,
			status: 502, details: []string{"upstream.proxyProtocol"},
		},
	})
}

// TestEgressDiagnoses uses errors of the egress proxy for each request form.
func TestEgressDiagnoses(t *testing.T) {
	p := newFixture(t)
	router := lab.RouterOptions{Secure: p.appsIdentity(t)}
	starts := func(o lab.EgressOptions) func(*testing.T, *fixture) {
		return func(t *testing.T, p *fixture) { t.Helper(); p.startEgressProxy(t, o) }
	}
	through := func(upstream, url string) func(*testing.T, *fixture) string {
		return func(t *testing.T, p *fixture) string {
			t.Helper()
			return p.outsideVIPs() + p.upstreamConfig(t, upstream, shared.pki.root) + p.egressConfig(t, url)
		}
	}
	// Errors of the proxy itself: the cause and the finding have the same name.
	auth := diagnosisCase{router: router, cause: "egress-auth", finds: "egress-auth", status: 502}
	denied := diagnosisCase{router: router, cause: "egress-denied", finds: "egress-denied", status: 502}
	untrusted := diagnosisCase{router: router, cause: "egress-tls", finds: "egress-tls", status: 502}
	withDetails := func(
		as diagnosisCase, name string, o lab.EgressOptions, config func(*testing.T, *fixture) string, part string,
	) diagnosisCase {
		as.name, as.set, as.config, as.details = name, starts(o), config, []string{part}
		return as
	}
	plain, secure := p.Egress.URL("http", "", lab.EgressName), p.Egress.URL("https", "", lab.EgressName)
	wrong := p.Egress.URL("http", "somebody:else", lab.EgressName)
	withPassword := lab.EgressOptions{User: user, Password: password}
	otherCA := issue(t, shared.pki.second, lab.ServerCertificate{Names: []string{lab.EgressName}})
	misnamed := issue(t, shared.pki.egress, lab.ServerCertificate{Names: []string{"other.lab.test"}})
	p.runDiagnoses(t, []diagnosisCase{
		withDetails(auth, "no credentials, absolute form", withPassword, through("", plain), lab.EgressName),
		withDetails(auth, "wrong credentials, absolute form", withPassword, through("", wrong), lab.EgressName),
		withDetails(auth, "wrong credentials, CONNECT", withPassword, through(https, wrong), lab.EgressName),
		withDetails(denied, "denied, absolute form", lab.EgressOptions{Deny: true}, through("", plain), lab.EgressName),
		withDetails(denied, "denied, CONNECT", lab.EgressOptions{Deny: true}, through(https, plain), lab.EgressName),
		{
			name: "no listener", router: router, config: through("", plain),
			cause: "egress-unreachable", finds: "egress-unreachable", status: 502, details: []string{lab.EgressName},
			text: ", through which " + p.Outside.V4.String() + ":80 (also [" + p.Outside.V6.String() + "]:80) is reached",
		},
		{
			name: "an unknown name", router: router, config: through(https, p.Egress.URL("http", "", "nobody.lab.test")),
			cause: "egress-unreachable", finds: "egress-unreachable", status: 502, details: []string{"nobody.lab.test"},
			text: "nobody.lab.test",
		},
		withDetails(untrusted, "a CA of the proxy that is not trusted", lab.EgressOptions{Secure: otherCA},
			through(https, secure), "Lab Second CA"),
		withDetails(untrusted, "a proxy by another name", lab.EgressOptions{Secure: misnamed}, through("", secure),
			"other.lab.test"),
		withDetails(untrusted, "a proxy without TLS", lab.EgressOptions{}, through(https, secure), lab.EgressName),
		{
			name: "an absolute form that loops", router: router,
			set: starts(lab.EgressOptions{Hosts: map[string]lab.Pair{apiName: p.API}}), config: through("", plain),
			cause: "egress-loop", finds: "egress-loop", status: 502,
		},
		{
			name: "an intercepting proxy with an untrusted CA", router: router,
			set: starts(lab.EgressOptions{Bump: shared.pki.bump, Trust: lab.Bundle(shared.pki.root)}),
			config: func(t *testing.T, p *fixture) string {
				t.Helper()
				return strings.Replace(through(https, plain)(t, p), "egress-ca.crt", "nobody.crt", 1)
			},
			cause: "ingress-tls-untrusted", finds: "ingress-tls-untrusted", status: 502, details: []string{
				"Lab Bump CA",
				"egressProxy.trustedCA",
			}, text: "egressProxy.trustedCA",
		},
		{
			name: "an expired router behind the proxy", set: starts(lab.EgressOptions{}), config: through(https, plain),
			router: lab.RouterOptions{Secure: issue(t, shared.pki.intermediate, lab.ServerCertificate{
				Names: []string{"*.apps." + p.Domain}, NotBefore: time.Now().Add(-48 * time.Hour),
				NotAfter: time.Now().Add(-time.Hour),
			})},
			cause: "ingress-tls-expired", finds: "ingress-tls-expired", status: 502,
		},
	})
}
