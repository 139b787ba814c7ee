// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/nstest"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
)

const (
	path       = "/.well-known/acme-challenge/token"
	redirectTo = "HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: "
)

// redirectToSame is a redirect to the https URL of the request.
const redirectToSame = redirectTo + "https://" + api + path + "\r\n\r\n"

// TestSameOverHTTPS covers which redirects are followed.
func TestSameOverHTTPS(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		location, host, target string
		want                   bool
	}{
		"the same":                     {"https://api.example.com/a?b", api, "/a?b", true},
		"in capitals":                  {"HTTPS://API.example.COM/a?b", api, "/a?b", true},
		"a trailing dot":               {"https://api.example.com./a", api, "/a", true},
		"the usual port":               {"https://api.example.com:443/a", api, "/a", true},
		"the ingress's port":           {"https://api.example.com:8443/a", api, "/a", true},
		"dot and port":                 {"https://api.example.com.:443/a", api, "/a", true},
		"an address":                   {"https://192.0.2.5/a", "192.0.2.5", "/a", true},
		"an address of IPv6":           {"https://[2001:DB8::5]:443/a", "[2001:db8::5]", "/a", true},
		"by http":                      {"http://api.example.com/a", api, "/a", false},
		"another scheme":               {"ftp://api.example.com/a", api, "/a", false},
		"another host":                 {"https://evil.example.com/a", api, "/a", false},
		"a longer host":                {"https://api.example.com.evil.org/a", api, "/a", false},
		"a shorter host":               {"https://api.example/a", api, "/a", false},
		"two dots":                     {"https://api.example.com../a", api, "/a", false},
		"a user":                       {"https://api.example.com@evil.org/a", api, "/a", false},
		"a user before it":             {"https://user@api.example.com/a", api, "/a", false},
		"a user with a password":       {"https://api.example.com:443@evil.org/a", api, "/a", false},
		"another port":                 {"https://api.example.com:6443/a", api, "/a", false},
		"an empty port":                {"https://api.example.com:/a", api, "/a", false},
		"a port with zeros":            {"https://api.example.com:0443/a", api, "/a", false},
		"a port, and no path":          {"https://api.example.com:443", api, "/a", false},
		"no path":                      {"https://api.example.com", api, "/a", false},
		"another path":                 {"https://api.example.com/b", api, "/a", false},
		"a longer path":                {"https://api.example.com/a/", api, "/a", false},
		"the same path, written other": {"https://api.example.com/%61", api, "/a", false},
		"a query more":                 {"https://api.example.com/a?b", api, "/a", false},
		"a query less":                 {"https://api.example.com/a", api, "/a?b", false},
		"a fragment":                   {"https://api.example.com/a#b", api, "/a", false},
		"a relative reference":         {"/a", api, "/a", false},
		"without a scheme":             {"//api.example.com/a", api, "/a", false},
		"a backslash":                  {`https:\\api.example.com/a`, api, "/a", false},
		"a space":                      {"https://api.example.com /a", api, "/a", false},
		"empty":                        {"", api, "/a", false},
		"no host":                      {"https:///a", "", "/a", false},
		"no host in the request":       {"https://api.example.com/a", "", "/a", false},
		"no target":                    {"https://api.example.com", api, "", false},
	} {
		if got := sameOverHTTPS([]byte(test.location), test.host, []byte(test.target), 8443); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// redirectingIngress is an ingress with a port for each scheme.
type redirectingIngress struct {
	http  *testRouter
	https *tlsRouter
	heads struct {
		sync.Mutex
		list []string
	}
}

// newRedirectingIngress returns an ingress that answers first without TLS, and
// then, over TLS, each of then in turn.
func newRedirectingIngress(t testing.TB, p pki, first string, then ...string) *redirectingIngress {
	t.Helper()
	d := &redirectingIngress{http: startRouter(t, "127.0.0.1:0", answersWith(first))}
	d.https = startTLSRouter(t, "127.0.0.1:0", p.config(t, api), func(_ int, conn *tls.Conn, b *bufio.Reader) {
		for {
			head, err := readHead(b)
			if err != nil {
				return
			}
			d.heads.Lock()
			text := then[min(len(d.heads.list), len(then)-1)]
			d.heads.list = append(d.heads.list, head)
			d.heads.Unlock()
			_, _ = io.WriteString(conn, text)
		}
	})
	return d
}

func (d *redirectingIngress) settings(trust *TrustedCAs) Settings {
	return Settings{
		Upstream: ingress.Upstream{
			Addresses: []netip.Addr{d.http.addr.Addr()}, Port: d.http.addr.Port(),
			HTTPSPort: d.https.addr.Port(), FollowRedirects: true, ConnectTimeout: testTimeout,
		}, TrustedCAs: trust,
		MaxConnections: 8 * testIdle,
	}
}

func TestRedirects(t *testing.T) {
	t.Parallel()
	p := newPKI(t)
	page := strings.Repeat("x", 300)
	for name, test := range map[string]struct {
		first  string
		then   []string
		status int
		cause  findings.ID
		plain  int // connections, for two exchanges
		asked  int // over TLS, for two exchanges
	}{
		"302": {first: redirectToSame, then: []string{okResponse}, status: 200, plain: 2, asked: 2},
		"301": {
			first: strings.Replace(redirectToSame, "302 Found", "301 Moved", 1), then: []string{okResponse},
			status: 200, plain: 2, asked: 2,
		},
		"303": {
			first: strings.Replace(redirectToSame, "302 Found", "303 See", 1), then: []string{okResponse},
			status: 200, plain: 2, asked: 2,
		},
		"307": {
			first: strings.Replace(redirectToSame, "302 Found", "307 There", 1), then: []string{okResponse},
			status: 200, plain: 2, asked: 2,
		},
		"308": {
			first: strings.Replace(redirectToSame, "302 Found", "308 There", 1), then: []string{okResponse},
			status: 200, plain: 2, asked: 2,
		},
		"300": {first: strings.Replace(redirectToSame, "302 Found", "300 Choose", 1), status: 300, plain: 1},
		"200": {first: strings.Replace(redirectToSame, "302 Found", "200 OK", 1), status: 200, plain: 1},
		"with a page": {
			first: strings.Replace(redirectToSame, "Content-Length: 0", "Content-Length: 300", 1) + page,
			then:  []string{okResponse}, status: 200, plain: 2, asked: 2,
		},
		"with a page in chunks": {
			first: strings.Replace(redirectToSame, "Content-Length: 0", "Transfer-Encoding: chunked", 1) + "12c\r\n" + page +
				"\r\n0\r\n\r\n", then: []string{okResponse}, status: 200, plain: 2, asked: 2,
		},
		"with a page that does not come": {first: strings.Replace(redirectToSame, "Content-Length: 0",
			"Content-Length: 60000", 1) + page, then: []string{okResponse}, status: 200, plain: 2, asked: 2},
		"closes": {first: strings.Replace(redirectToSame, "Content-Length: 0",
			"Content-Length: 0\r\nConnection: close", 1), then: []string{okResponse}, status: 200, plain: 2, asked: 2},
		"for ever": {
			first: redirectToSame, then: []string{redirectToSame}, status: 302,
			cause: findings.RouteRedirectLoop, plain: 2, asked: 2,
		},
		"and then elsewhere": {
			first: redirectToSame, then: []string{redirectTo + "https://evil.example.com/\r\n\r\n"},
			status: 302, cause: findings.RouteRedirectsElsewhere, plain: 2, asked: 2,
		},
		"and then no route": {
			first: redirectToSame, then: []string{"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"},
			status: 503, cause: findings.RouteMissing, plain: 2, asked: 2,
		},
		"elsewhere": {
			first: redirectTo + "https://evil.example.com/\r\n\r\n", status: 302,
			cause: findings.RouteRedirectsElsewhere, plain: 1,
		},
		"several": {
			first:  redirectTo + "https://" + api + path + "\r\nLocation: https://" + api + path + "\r\n\r\n",
			status: 302, cause: findings.RouteRedirectsElsewhere, plain: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newRedirectingIngress(t, p, test.first, test.then...)
			c := newClient(t, d.settings(p.trustedCAs()))
			for range 2 {
				status, body, e := doExchange(t, c, newRequest())
				cause := findings.ID("")
				if e != nil {
					cause = e.Cause
				}
				if status != test.status || cause != test.cause || status == 200 && len(test.then) > 0 && body != "token.key" {
					t.Errorf("%d %q, %v", status, body, e)
				}
			}
			d.heads.Lock()
			defer d.heads.Unlock()
			if n := d.http.accepted(); n != test.plain || len(d.heads.list) != test.asked {
				t.Errorf("%d connections, and %d requests over TLS", n, len(d.heads.list))
			}
		})
	}
}

// TestRedirectElsewhereIsNamed: the operator gets the destination, in one bounded
// line and without possible secrets.
func TestRedirectElsewhereIsNamed(t *testing.T) {
	t.Parallel()
	for location, want := range map[string]string{
		"https://evil.example.com/x":           `redirects the challenge to https://evil.example.com/..., which`,
		"http://evil.example.com:81?s3cret":    `redirects the challenge to http://evil.example.com:81/..., which`,
		"https://[2001:db8::1]:444/x":          `redirects the challenge to https://[2001:db8::1]:444/..., which`,
		"/login?state=s3cret#s3cret":           "redirects the challenge to a Location that is not an http or https URL",
		"/\xff\"x":                             "redirects the challenge to a Location that is not an http or https URL",
		"/" + strings.Repeat("x", 4000):        "redirects the challenge to a Location that is not an http or https URL",
		"/a\r\nLocation: /b":                   "redirects the challenge to 2 locations at once, which",
		"ftp://{error}.example.com/{upstream}": "redirects the challenge to a Location that is not an http or https URL",
	} {
		r := startRouter(t, "127.0.0.1:0", answersWith(redirectTo+location+"\r\n\r\n"))
		_, _, e := doExchange(t, newClient(t, plainSettings(r)), newRequest())
		if e == nil || e.Cause != findings.RouteRedirectsElsewhere || !strings.Contains(e.Detail(), want) {
			t.Errorf("%q: %v: %+v", location, e, e)
		}
	}
}

// TestRedirectedRequestHead: the followed request contains the same host in all
// fields.
func TestRedirectedRequestHead(t *testing.T) {
	t.Parallel()
	p := newPKI(t)
	for asked, want := range map[string]struct{ forwarded, to, led string }{
		"api.example.com:8080": {`"api.example.com:8080"`, "api.example.com", "api.example.com"},
		"api.example.com":      {"api.example.com", "api.example.com", "api.example.com"},
		"[2001:db8::5]:80":     {`"[2001:db8::5]:80"`, "[2001:db8::5]", `"[2001:db8::5]"`},
	} {
		lead := strings.Replace(redirectToSame, api, want.to, 1)
		d := newRedirectingIngress(t, p, lead, okResponse)
		ask := newRequest()
		ask.Host = want.to
		ask.Head = []byte("GET " + path + " HTTP/1.1\r\nHost: " + asked +
			"\r\nX: Host: a\r\nX-Forwarded-For: 192.0.2.9\r\nX-Forwarded-Host: " + asked + "\r\n" +
			"X-Forwarded-Proto: http\r\nX-Forwarded-Port: 80\r\nForwarded: for=192.0.2.9;host=" + want.forwarded +
			";proto=http\r\nVia: 1.1 http01-proxyd\r\n\r\n")
		s := d.settings(p.trustedCAs())
		s.VerifyNames = []string{api}
		wantAnswered(t, newClient(t, s), ask)
		head := "GET " + path + " HTTP/1.1\r\nHost: " + want.to +
			"\r\nX: Host: a\r\nX-Forwarded-For: 192.0.2.9\r\nX-Forwarded-Host: " + want.to + "\r\n" +
			"X-Forwarded-Proto: https\r\nX-Forwarded-Port: 443\r\nForwarded: for=192.0.2.9;host=" + want.led +
			";proto=https\r\nVia: 1.1 http01-proxyd\r\n\r\n"
		if got := d.heads.list[0]; got != head {
			t.Errorf("got  %q\nwant %q", got, head)
		}
	}
}

// TestRedirectFromTLS: with TLS from the start, a router may redirect to the same
// URL, because of the fields about the client.
func TestRedirectFromTLS(t *testing.T) {
	t.Parallel()
	p := newPKI(t)
	d := newRedirectingIngress(t, p, okResponse, redirectToSame, okResponse)
	s := d.settings(p.trustedCAs())
	s.TLS = true
	wantAnswered(t, newClient(t, s), newRequest())
	if d.http.accepted() != 0 {
		t.Error("a request without TLS")
	}
}

// TestRedirectDeadline: all redirects share one deadline.
func TestRedirectDeadline(t *testing.T) {
	t.Parallel()
	p := newPKI(t)
	d := &redirectingIngress{http: startRouter(t, "127.0.0.1:0", answersWith(redirectToSame))}
	d.https = startTLSRouter(t, "127.0.0.1:0", p.config(t, api),
		func(_ int, _ *tls.Conn, b *bufio.Reader) { _, _ = io.Copy(io.Discard, b) })
	ask := newRequest()
	ask.Deadline = time.Now().Add(300 * time.Millisecond)
	if _, _, e := doExchange(t, newClient(t, d.settings(p.trustedCAs())), ask); e == nil ||
		e.Cause != findings.IngressNoResponse || e.ClientStatus != 504 {
		t.Errorf("%v", e)
	}
}

// dialRecorder records the dialled addresses of a client.
type dialRecorder struct {
	sync.Mutex
	addrs map[netip.AddrPort]bool
}

// recordDials records what c dials.
func recordDials(c *Client) *dialRecorder {
	d := &dialRecorder{addrs: map[netip.AddrPort]bool{}}
	connect := c.dialFunc
	c.dialFunc = func(ctx context.Context, addr netip.AddrPort, timeout time.Duration) (net.Conn, error) {
		d.Lock()
		d.addrs[addr] = true
		d.Unlock()
		return connect(ctx, addr, timeout)
	}
	return d
}

func (d *dialRecorder) check(t testing.TB, allowed ...netip.AddrPort) {
	t.Helper()
	d.Lock()
	defer d.Unlock()
	for addr := range d.addrs {
		if !slices.Contains(allowed, addr) {
			t.Errorf("%v was dialled; configured are %v", addr, allowed)
		}
	}
}

// FuzzRedirect: whatever a Location, Host and target contain, only the ingress is
// dialled. It is dialled over TLS only if net/url also sees the https URL of the
// same host and path.
func FuzzRedirect(f *testing.F) {
	nstest.Require(f)
	for _, location := range []string{
		"https://api.example.com" + path, "https://api.example.com.:443" + path, "https://user@api.example.com" + path, "/",
		"//evil" + path, "https://127.0.0.66" + path,
		"//127.0.0.66:80" + path, "https://[::1]" + path, "https://169.254.169.254/latest/meta-data",
		"unix:/run/crio/crio.sock", "https://api.example.com#@127.0.0.66" + path,
		"https://api.example.com\\@127.0.0.66" + path, "https://2130706433" + path, "https://api.example.com" + path +
			"\r\nLocation: https://x", "HTTPS://API.EXAMPLE.COM" + path + "#x", "https://api.example.com:8443/",
	} {
		f.Add(location, api, path)
		f.Add(location, "127.0.0.66", "/a?b")
		f.Add(location, "", "/")
	}
	p := newPKI(f)
	var location string
	var mu sync.Mutex
	plain := startRouter(f, "127.0.0.1:0", func(_ int, tcp *net.TCPConn, b *bufio.Reader) {
		for readRequest(b) {
			mu.Lock()
			text := redirectTo + location + "\r\n\r\n"
			mu.Unlock()
			_, _ = io.WriteString(tcp, text)
		}
	})
	secure := startTLSRouter(f, "127.0.0.1:0", p.config(f, api), answersOverTLS)
	f.Fuzz(func(t *testing.T, lead, host, target string) {
		mu.Lock()
		location = lead
		mu.Unlock()
		c := newClient(t, Settings{Upstream: ingress.Upstream{
			Addresses: []netip.Addr{plain.addr.Addr()},
			Port:      plain.addr.Port(), HTTPSPort: secure.addr.Port(), FollowRedirects: true, VerifyNames: []string{api},
			ConnectTimeout: testTimeout,
		}, TrustedCAs: p.trustedCAs()})
		seen := recordDials(c)
		ask := newRequest()
		ask.Host, ask.Target = host, []byte(target)
		// Some answers end only with the deadline.
		ask.Deadline = time.Now().Add(100 * time.Millisecond)
		from, _ := c.Exchange(t.Context(), ask, new(Relay))
		seen.check(t, plain.addr, secure.addr)
		if from != secure.addr {
			return
		}
		u, err := url.Parse(lead)
		if err != nil {
			return // net/url is stricter: only the host could matter, which is not dialled
		}
		if u.Scheme != "https" || !strings.EqualFold(strings.TrimSuffix(u.Hostname(), "."), strings.Trim(host, "[]")) ||
			u.User != nil || u.Fragment != "" || u.RequestURI() != target {
			t.Errorf("followed %q for host %q and target %q", lead, host, target)
		}
	})
}
