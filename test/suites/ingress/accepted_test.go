// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"context"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// egressCondition is the condition that reports whether the configured egress proxy is in
// use.
const egressCondition = "EgressProxyReady"

// readyName is the name of the readiness endpoint, which only the proxy resolves.
const readyName = "ready.lab.test"

// TestSpecAndAccepted holds that the egress proxy in proxy.env is used only after the
// readiness endpoint answered through it.
func TestSpecAndAccepted(t *testing.T) {
	p := newFixture(t)
	p.restartRouter(t, lab.RouterOptions{})
	p.startEgressProxy(t, lab.EgressOptions{Hosts: map[string]lab.Pair{apiName: p.Outside, readyName: p.Outside}})
	var ready atomic.Bool
	var probed atomic.Int64
	port := p.startBackend(t, net.JoinHostPort("::", "0"), func(w http.ResponseWriter, _ *http.Request) {
		probed.Add(1)
		if !ready.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	path := p.writeHostFile(t, "proxy.env", nil)
	must(t, os.Remove(path))
	s := p.launch(t, p.outsideVIPs()+fmt.Sprintf(
		"egressProxy:\n  file: %s\n  upstream: auto\n  readinessEndpoints: [\"http://%s\"]\nhosts: [%s]\nupstream: "+
			"{connectTimeout: 500ms}\n",
		path, net.JoinHostPort(readyName, strconv.Itoa(port))+"/ready", apiName))

	// Without the file there is no proxy and no route to the ingress.
	p.awaitEgressReason(t, s, "True", "NotConfigured")
	p.awaitProxyUnused(t, s, "without-a-file")

	good := envFile(p.Egress.URL("http", "", lab.EgressName))
	replaceFile(t, path, good)
	p.awaitEgressReason(t, s, "False", "NotReady")
	must(t, lab.Eventually(t.Context(), "a request through the proxy", func(context.Context) error {
		if probed.Load() == 0 {
			return fmt.Errorf("no request so far\n%s", s.Tail(5))
		}
		return nil
	}))
	p.awaitProxyUnused(t, s, "before-it-is-ready")

	ready.Store(true)
	p.awaitEgressReason(t, s, "True", "Accepted")
	p.forEachFamily(t, func(t *testing.T, _ netip.Addr) {
		t.Helper()
		_, err := p.Certificate(t.Context(), lab.Order{Name: apiName})
		must(t, err)
	})

	t.Run("a proxy that does not exist", func(t *testing.T) {
		replaceFile(t, path, envFile("http://"+net.JoinHostPort(p.Egress.Addresses.V4.String(), "9")))
		p.awaitEgressReason(t, s, "False", "NotReady")
		p.awaitProxyUsed(t, s, "by-the-last-accepted")
	})
	for _, bad := range []struct{ name, text string }{
		{"half written", string(good[:len(good)/2])},
		{"another scheme", string(envFile("socks5://" + lab.EgressName + ":1080"))},
		{"an invalid URL", string(envFile("http://[::1"))},
	} {
		t.Run(bad.name, func(t *testing.T) {
			replaceFile(t, path, []byte(bad.text))
			p.awaitEgressReason(t, s, "False", "")
			p.awaitProxyUsed(t, s, "still-the-last-one")
		})
	}
	t.Run("corrected", func(t *testing.T) {
		replaceFile(t, path, good)
		p.awaitEgressReason(t, s, "True", "Accepted")
		p.awaitProxyUsed(t, s, "the-same-again")
	})
	t.Run("quotes and CRLF", func(t *testing.T) {
		must(t, os.WriteFile(path, []byte("# of the MCO\r\nHTTP_PROXY=\""+p.Egress.URL("http", "", lab.EgressName)+
			"\"\r\nUNKNOWN='1'\r\n"), 0o600))
		p.awaitEgressReason(t, s, "True", "Accepted")
		p.awaitProxyUsed(t, s, "written-by-hand")
	})
	t.Run("the ingress is in NO_PROXY", func(t *testing.T) {
		replaceFile(t, path, append(good, "NO_PROXY=203.0.113.0/24,fd4e:5f2a:9c01:3::/64\n"...))
		p.awaitProxyUnused(t, s, "straight-on")
	})
	t.Run("removed", func(t *testing.T) {
		replaceFile(t, path, good)
		p.awaitProxyUsed(t, s, "once-more")
		must(t, os.Remove(path))
		p.awaitEgressReason(t, s, "True", "NotConfigured")
		p.awaitProxyUnused(t, s, "without-a-file-again")
	})
}

// envFile returns a proxy.env as the machine-config-operator writes it.
func envFile(proxy string) []byte {
	return fmt.Appendf(nil, "HTTP_PROXY=%s\nHTTPS_PROXY=%s\n", proxy, proxy)
}

// awaitProxyUnused waits until a challenge does not go through the proxy, which is the only
// route to the ingress.
func (p *fixture) awaitProxyUnused(t *testing.T, s *lab.Service, token string) {
	t.Helper()
	p.awaitAnswer(t, s, "not-yet", "HTTP/1.1 502 ", "HTTP/1.1 504 ")
	p.awaitAnswer(t, s, token, "HTTP/1.1 502 ", "HTTP/1.1 504 ")
	lines, err := p.Egress.Requests()
	must(t, err)
	for _, line := range lines {
		if strings.Contains(line, token) {
			t.Errorf("the proxy was used: %s", line)
		}
	}
}

// awaitProxyUsed waits until a challenge goes through the proxy to the router, which has no
// route for it.
func (p *fixture) awaitProxyUsed(t *testing.T, s *lab.Service, token string) {
	t.Helper()
	p.awaitAnswer(t, s, token, "HTTP/1.1 503 ")
}

// awaitAnswer waits until a challenge gets one of these answers.
func (p *fixture) awaitAnswer(t *testing.T, s *lab.Service, token string, prefixes ...string) {
	t.Helper()
	must(t, lab.Eventually(t.Context(), fmt.Sprintf("%q for %s", prefixes, token), func(ctx context.Context) error {
		if err := s.Alive(); err != nil {
			return err
		}
		text, err := p.Internet.Raw(ctx, web(p.API.V4), "GET "+acmePath+token+" HTTP/1.1\r\nHost: "+apiName+"\r\n\r\n")
		if err != nil {
			return err
		}
		for _, prefix := range prefixes {
			if strings.HasPrefix(text, prefix) {
				return nil
			}
		}
		return fmt.Errorf("the answer is %.100q\n%s", text, s.Tail(5))
	}))
}

// awaitEgressReason waits for the condition of the egress proxy.
func (p *fixture) awaitEgressReason(t *testing.T, s *lab.Service, status, reason string) {
	t.Helper()
	p.awaitCondition(t, s, egressCondition, status, reason)
}

// awaitCondition waits for a condition. An empty reason matches any.
func (p *fixture) awaitCondition(t *testing.T, s *lab.Service, kind, status, reason string) lab.Condition {
	t.Helper()
	seen, err := s.Await(t.Context(), kind+" "+status+" "+reason, func(seen lab.Status) error {
		if c := seen.ConditionOf(kind); c.Status != status || reason != "" && c.Reason != reason {
			return fmt.Errorf("it is %+v", c)
		}
		return nil
	})
	must(t, err)
	return seen.ConditionOf(kind)
}

// TestCredentials holds that no output has credentials, whether they are right, wrong, or
// in a rejected URL.
func TestCredentials(t *testing.T) {
	p := newFixture(t)
	p.restartRouter(t, lab.RouterOptions{Secure: p.appsIdentity(t)})
	p.startEgressProxy(t, lab.EgressOptions{User: user, Password: password})
	const wrong = "another-s3cret"
	path := p.writeHostFile(t, "proxy.env", envFile(p.Egress.URL("http", userinfo, lab.EgressName)))
	config := p.outsideVIPs() + p.upstreamConfig(t, https, shared.pki.root) +
		fmt.Sprintf("egressProxy:\n  file: %s\n  upstream: auto\nhosts: [%s]\n", path, apiName)
	s := p.serve(t, config)
	var seen strings.Builder
	look := func() {
		t.Helper()
		for _, show := range []func(context.Context) (string, error){
			s.StatusJSON, s.StatusText,
			func(ctx context.Context) (string, error) {
				return s.Show(ctx, "-o", "prometheus")
			},
		} {
			text, err := show(t.Context())
			must(t, err)
			seen.WriteString(text)
		}
	}
	check := func(flags ...string) string {
		t.Helper()
		text, _, err := p.holder().CheckText(t.Context(), shared.binary, flags...)
		must(t, err)
		seen.WriteString(text)
		return text
	}
	p.awaitProxyUsed(t, s, "with-good-credentials")
	look()
	// The line names the proxy once for each answer. Addresses with the same duration share
	// an answer.
	line := regexp.MustCompile("(?m)^✓ ingress .*$").FindString(check())
	for _, vip := range p.Outside.Both() {
		if !strings.Contains(line, netip.AddrPortFrom(vip, 443).String()) {
			t.Errorf("the line does not name %s: %q", vip, line)
		}
	}
	if n := strings.Count(line, "through the egress proxy "+lab.EgressName); n != strings.Count(line, "responds in") ||
		n == 0 {
		t.Errorf("the line names the proxy %d times: %q", n, line)
	}
	for i, bad := range []string{
		"socks5://somebody:" + wrong + "@" + lab.EgressName + ":1080",
		"http://somebody:" + wrong + "@[::1",
		"http://somebody:" + wrong + "%zz@" + lab.EgressName + ":3128",
	} {
		replaceFile(t, path, envFile(bad))
		p.requestChallenge(t, p.API.V4, fmt.Sprintf("bad-%d-of-the-file", i))
		look()
		must(t, p.holder().WriteConfig(strings.Replace(config, "file: "+path, fmt.Sprintf("httpProxy: %q\n  httpsProxy: %q",
			bad, bad), 1)))
		must(t, s.Reload())
		p.requestChallenge(t, p.API.V4, fmt.Sprintf("bad-%d-of-the-configuration", i))
		look()
		check("-o", "json")
		must(t, p.holder().WriteConfig(config))
	}
	journal, err := os.ReadFile(s.Log)
	must(t, err)
	seen.Write(journal)
	seen.WriteString(strings.Join(s.Notifications.All(), "\n"))
	for _, secret := range []string{
		password, "p%40ss", url.QueryEscape(password), wrong, "lab%20user:", user + ":",
		base64.StdEncoding.EncodeToString([]byte(user + ":" + password)),
		base64.StdEncoding.EncodeToString([]byte("somebody:" + wrong)),
	} {
		for line := range strings.Lines(seen.String()) {
			if strings.Contains(line, secret) {
				t.Errorf("%q is shown: %.500s", secret, line)
				break
			}
		}
	}
}
