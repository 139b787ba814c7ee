// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"bufio"
	"bytes"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
)

func TestAbsoluteForm(t *testing.T) {
	t.Parallel()
	const rest = "X-Forwarded-For: 198.51.100.7\r\nVia: 1.1 http01-proxyd\r\n\r\n"
	const head = "GET /.well-known/acme-challenge/a?b=http://c HTTP/1.1\r\nHost: api.example.com\r\n" + rest
	for name, c := range map[string]struct {
		head, host string
		port       uint16
		secret     ingress.Secret
		want, err  string
	}{
		"plain": {
			head: head, host: "api.example.com", port: 80,
			want: "GET http://api.example.com/.well-known/acme-challenge/a?b=http://c HTTP/1.1\r\nHost: api.example.com\r\n" +
				rest,
		},
		"Basic": {
			head: head, host: "api.example.com", port: 80, secret: ingress.NewSecret(basicAuth),
			want: "GET http://api.example.com/.well-known/acme-challenge/a?b=http://c HTTP/1.1\r\nHost: " +
				"api.example.com\r\nProxy-Authorization: " + basicAuth + "\r\n" + rest,
		},
		"another port": {
			head: head, host: "api.example.com", port: 8080,
			want: "GET http://api.example.com:8080/.well-known/acme-challenge/a?b=http://c HTTP/1.1\r\nHost: " +
				"api.example.com:8080\r\n" + rest,
		},
		// The port that the client has named is not used.
		"the client's port": {
			head: "HEAD / HTTP/1.1\r\nHost: api.example.com:6443\r\n\r\n", host: "api.example.com", port: 80,
			want: "HEAD http://api.example.com/ HTTP/1.1\r\nHost: api.example.com\r\n\r\n",
		},
		"no host": {head: head, port: 80, err: cause.Details{Reason: cause.NoHost}.Error()},
		"absolute before": {
			head: "GET http://a/ HTTP/1.1\r\nHost: b\r\n\r\n", host: "b", port: 80,
			err: cause.Details{Reason: cause.BadHead}.Error(),
		},
		"no Host first": {
			head: "GET / HTTP/1.1\r\nX: b\r\nHost: b\r\n\r\n", host: "b", port: 80,
			err: cause.Details{Reason: cause.BadHead}.Error(),
		},
		"no line": {head: "GET / HTTP/1.1", host: "b", port: 80, err: cause.Details{Reason: cause.BadHead}.Error()},
		"nothing": {host: "b", port: 80, err: cause.Details{Reason: cause.BadHead}.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := absoluteForm([]byte(c.head), c.host, c.port, c.secret)
			message := ""
			if err != nil {
				message, got = err.Error(), nil
			}
			if message != c.err || string(got) != c.want {
				t.Error(message)
				t.Errorf("%s", cmp.Diff(c.want, string(got)))
			}
		})
	}
}

// FuzzAbsoluteForm: net/http reads the same request in absolute-form, with the
// given host and authorization, and nothing else.
func FuzzAbsoluteForm(f *testing.F) {
	f.Add("/.well-known/acme-challenge/token", "api.example.com", "X-Forwarded-For: 192.0.2.7\r\n", uint16(80))
	f.Add("//evil.example/x@y?http://z#", "a_b", "", uint16(8080))
	f.Add("/%2f:80@evil.example", "[2001:db8::1]", "Via: 1.1 x\r\nProxy-Authorization: y\r\n", uint16(443))
	f.Fuzz(func(t *testing.T, target, host, fields string, port uint16) {
		head := "GET " + target + " HTTP/1.1\r\nHost: " + host + "\r\n" + fields + "\r\n"
		before, err := http.ReadRequest(bufio.NewReader(strings.NewReader(head)))
		if err != nil || target[0] != '/' || strings.ContainsAny(host, "/?#@\\, \t\r\n%") || before.Host != host ||
			strings.ContainsAny(target, " #\r\n") || len(host) == 0 {
			return // pkg/proxy/reqhead refuses all of these
		}
		got, err := absoluteForm([]byte(head), host, port, ingress.NewSecret(basicAuth))
		if err != nil {
			t.Fatalf("%q is refused: %v", head, err)
		}
		if _, err := url.ParseRequestURI("http://" + authority(host, port) + target); err != nil {
			return // an invalid authority such as "[", which pkg/proxy/reqhead refuses
		}
		after, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(got)))
		if err != nil {
			t.Fatalf("net/http refuses %q: %v", got, err)
		}
		if want := authority(host, port); after.URL.Scheme != "http" || after.URL.Host != want || after.Host != want ||
			after.Method != before.Method {
			t.Fatalf("%q requests %q at %q (%q)", got, after.URL, after.Host, want)
		}
		if !strings.HasPrefix(after.RequestURI, "http://"+after.URL.Host+"/") || strings.TrimPrefix(after.RequestURI,
			"http://"+after.URL.Host) != target {
			t.Fatalf("%q has the target %q, want that of %q", got, after.RequestURI, target)
		}
		if values := after.Header["Proxy-Authorization"]; len(values) == 0 || values[0] != basicAuth {
			t.Fatalf("%q is authorized by %q", got, values)
		} else if len(values) == 1 {
			delete(after.Header, "Proxy-Authorization")
		} else {
			after.Header["Proxy-Authorization"] = values[1:]
		}
		if diff := cmp.Diff(before.Header, after.Header); diff != "" {
			t.Fatalf("the fields differ: %s", diff)
		}
	})
}

func TestIsFromProxy(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		response string
		byProxy  bool
		message  string
	}{
		"the solver's":        {response: "HTTP/1.1 200 OK\r\nVia: 1.1 squid (squid/5.7)\r\n\r\n"},
		"through one without": {response: "HTTP/1.1 200 OK\r\n\r\n"},
		"the router's 503":    {response: "HTTP/1.1 503 Service Unavailable\r\nVia: 1.1 squid (squid/5.7)\r\n\r\n"},
		"the solver's 404":    {response: "HTTP/1.1 404 Not Found\r\n\r\n"},
		"credentials": {
			response: "HTTP/1.1 407 Proxy Authentication Required\r\nVia: 1.1 a\r\n\r\n",
			byProxy:  true, message: "it answers 407",
		},
		"Squid's own": {response: "HTTP/1.1 503 Service Unavailable\r\nX-Squid-Error: ERR_DNS_FAIL " +
			"0\r\nVia: 1.1 squid (squid/5.7)\r\n\r\n", byProxy: true, message: "it answers 503 (ERR_DNS_FAIL)"},
		"Squid denies": {response: "HTTP/1.1 403 Forbidden\r\nX-Squid-Error: ERR_ACCESS_DENIED " +
			"0\r\nVia: 1.1 squid\r\n\r\n", byProxy: true, message: "it answers 403 (ERR_ACCESS_DENIED)"},
		"one without Via": {
			response: "HTTP/1.1 504 Gateway Timeout\r\n\r\n", byProxy: true,
			message: "it answers 504",
		},
		"RFC 9209": {response: "HTTP/1.1 502 Bad Gateway\r\nVia: 1.1 a\r\nProxy-Status: b; " +
			"received-status=200, a;error=dns_timeout\r\n\r\n", byProxy: true, message: "it answers 502 (dns_timeout)"},
		"one without error": {response: "HTTP/1.1 502 Bad Gateway\r\nVia: 1.1 a\r\nProxy-Status: a; " +
			"next-hop=x\r\n\r\n"},
		"a 503 behind Squid with via off": {response: "HTTP/1.1 503 Service Unavailable\r\nX-Cache: MISS from vm\r\n\r\n"},
		"this service's": {response: "HTTP/1.1 502 Bad Gateway\r\nProxy-Status: http01-proxyd; " +
			"error=proxy_loop_detected\r\nVia: 1.1 squid\r\n\r\n"},
		"this service's, without Via": {response: "HTTP/1.1 502 Bad Gateway\r\nProxy-Status: http01-proxyd; " +
			"error=proxy_loop_detected\r\n\r\n"},
		"another 502": {response: "HTTP/1.1 502 Bad Gateway\r\nVia: 1.1 squid\r\n\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var a response
			route := &upstreamRoute{proxy: &ingress.EgressProxy{}}
			if n, err := a.parse([]byte(c.response)); err != nil || n != len(c.response) {
				t.Fatalf("%d, %v", n, err)
			}
			if got := a.isFromProxy(true); got != c.byProxy {
				t.Errorf("by the proxy: %v", got)
			}
			if got := a.isFromProxy(false); got != (c.byProxy && strings.Contains(c.message, "(")) {
				t.Errorf("by the proxy, within a tunnel: %v", got)
			}
			if message := route.rejection(&a).Err.Error(); c.byProxy && message != c.message {
				t.Errorf("the rejection is %q, want %q", message, c.message)
			}
		})
	}
}
