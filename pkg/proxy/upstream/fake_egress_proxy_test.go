// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"bufio"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
)

const (
	user     = "cluster"
	password = "s3cr3t/+:" // #nosec G101 -- of these tests
)

func credentials() string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

// fakeEgressProxy is a proxy that accepts only what RFC 9112 permits a client to
// send to one. test/suites/ingress tests a real Squid, with name resolution and the
// addresses of a cluster. This test covers the bytes of requests and the handling of
// responses, some of which no Squid sends.
type fakeEgressProxy struct {
	*testRouter
	names         map[string]netip.AddrPort // its DNS
	authorization string                    // expected in Proxy-Authorization
	tls           *tls.Config               // TLS with the proxy itself
	interception  *tls.Config               // interception of a tunnel
	response      string                    // sent in place of any action

	mu       sync.Mutex
	requests []string
}

func (p *fakeEgressProxy) start(t testing.TB) *fakeEgressProxy {
	t.Helper()
	p.testRouter = startRouter(t, "127.0.0.1:0", func(_ int, tcp *net.TCPConn, b *bufio.Reader) {
		if p.tls == nil {
			p.serveConn(t, tcp, b)
			return
		}
		conn := tls.Server(tcp, p.tls)
		if conn.Handshake() == nil {
			p.serveConn(t, conn, bufio.NewReader(conn))
			_ = conn.Close()
		}
	})
	return p
}

func (p *fakeEgressProxy) requestLines() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.requests)
}

func (p *fakeEgressProxy) serveConn(t testing.TB, conn net.Conn, b *bufio.Reader) {
	t.Helper()
	for {
		r, err := http.ReadRequest(b)
		if err != nil {
			return
		}
		p.mu.Lock()
		p.requests = append(p.requests, r.Method+" "+r.RequestURI)
		p.mu.Unlock()
		authorization := r.Header["Proxy-Authorization"]
		switch {
		case p.response != "":
			_, _ = io.WriteString(conn, p.response)
			return
		case p.authorization == "" && len(authorization) > 0, p.authorization != "" && !slices.Equal(authorization,
			[]string{p.authorization}):
			_, _ = io.WriteString(conn,
				"HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm=\"x\"\r\nContent-Length: "+
					"6\r\n\r\n<html>")
			return
		case r.Method == http.MethodConnect:
			p.tunnel(conn, b, r)
			return
		case r.URL.Scheme != "http" || r.URL.Host != r.Host || r.URL.User != nil || r.ContentLength != 0:
			t.Errorf("the proxy was sent %s %s with Host %s", r.Method, r.RequestURI, r.Host)
			return
		case !p.forward(conn, r):
			return
		}
	}
}

func (p *fakeEgressProxy) tunnel(conn net.Conn, b *bufio.Reader, r *http.Request) {
	to, err := netip.ParseAddrPort(r.RequestURI)
	if err != nil || r.Host != r.RequestURI {
		_, _ = io.WriteString(conn, "HTTP/1.1 400 Bad Request\r\n\r\n")
		return
	}
	far, err := net.DialTimeout("tcp", to.String(), testTimeout)
	if err != nil {
		_, _ = io.WriteString(conn,
			"HTTP/1.1 503 Service Unavailable\r\nX-Squid-Error: ERR_CONNECT_FAIL 111\r\nContent-Length: 6\r\n\r\n<html>")
		return
	}
	defer far.Close()
	_, _ = io.WriteString(conn, "HTTP/1.1 200 Connection established\r\n\r\n")
	near := io.Reader(b)
	if p.interception != nil {
		between := tls.Server(conn, p.interception)
		conn, near = between, between
		if between.Handshake() != nil {
			return
		}
		far = tls.Client(far, &tls.Config{InsecureSkipVerify: true}) // #nosec G402 -- it is the client that is tested
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(conn, far)
		_ = conn.Close()
	}()
	_, _ = io.Copy(far, near)
	_ = far.Close()
	<-done
}

// forward reports whether the connection can take another request.
func (p *fakeEgressProxy) forward(conn net.Conn, r *http.Request) bool {
	to, known := p.names[r.Host]
	if !known {
		_, _ = io.WriteString(conn,
			"HTTP/1.1 503 Service Unavailable\r\nX-Squid-Error: ERR_DNS_FAIL 0\r\nVia: 1.1 egress\r\nContent-Length: "+
				"6\r\n\r\n<html>")
		return true
	}
	far, err := net.DialTimeout("tcp", to.String(), testTimeout)
	if err != nil {
		return false
	}
	defer far.Close()
	if _, err := fmt.Fprintf(far, "%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", r.Method, r.URL.RequestURI(),
		r.Host); err != nil {
		return false
	}
	response, err := http.ReadResponse(bufio.NewReader(far), r)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	response.Close = false
	response.Header.Add("Via", "1.1 egress")
	return response.Write(conn) == nil
}

// routeThrough returns settings by which all addresses of a router are reached
// through the proxy.
func (p *fakeEgressProxy) routeThrough(s Settings, secret string) Settings {
	hop := ingress.EgressProxy{
		Name: proxyName, TLS: p.tls != nil, Addrs: []netip.AddrPort{p.addr},
		Authorization: ingress.NewSecret(secret),
	}
	for _, addr := range s.Addresses {
		for _, port := range []uint16{s.Port, s.HTTPSPort} {
			s.Egress.Routes = append(s.Egress.Routes, ingress.EgressRoute{Ingress: netip.AddrPortFrom(addr, port), Proxy: hop})
		}
	}
	return s
}

// checkSecretHidden checks that no printed form reveals the credentials.
func checkSecretHidden(t testing.TB, all ...any) {
	t.Helper()
	for _, what := range all {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
			text := fmt.Sprintf(verb, what)
			if strings.Contains(text, password) || strings.Contains(text, strings.TrimPrefix(credentials(), "Basic ")) {
				t.Errorf("%s of %T: %s", verb, what, text)
			}
		}
	}
}
