// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
)

const basicAuth = "Basic dXNlcjpwYXNzd29yZA==" // user:password

// tunnelRoute is a route by an egress proxy.
func tunnelRoute(secret ingress.Secret) *upstreamRoute {
	return &upstreamRoute{
		addr:  netip.MustParseAddrPort("192.0.2.6:443"),
		proxy: &ingress.EgressProxy{Authorization: secret},
	}
}

// connectThrough runs a proxy that answers one CONNECT with text and then closes.
// It returns what the proxy received.
func connectThrough(t *testing.T, text string, secret ingress.Secret) (rest []byte, sent string, failure *Error) {
	t.Helper()
	near, far := net.Pipe()
	t.Cleanup(func() { _ = near.Close() })
	_ = far.SetDeadline(time.Now().Add(testTimeout))
	received := make(chan string, 1)
	go func() {
		defer far.Close()
		head, _ := readHead(bufio.NewReader(far))
		received <- head
		if text != "" { // net.Pipe delivers an empty write too
			_, _ = io.WriteString(far, text)
		}
	}()
	rest, failure = tunnelRoute(secret).openTunnel(near, time.Now().Add(testTimeout))
	return rest, <-received, failure
}

func TestConnectRequest(t *testing.T) {
	t.Parallel()
	const want = "CONNECT 192.0.2.6:443 HTTP/1.1\r\nHost: 192.0.2.6:443\r\n"
	for name, c := range map[string]struct {
		secret ingress.Secret
		want   string
	}{
		"without credentials": {ingress.Secret{}, want + "\r\n"},
		"Basic":               {ingress.NewSecret(basicAuth), want + "Proxy-Authorization: " + basicAuth + "\r\n\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, sent, err := connectThrough(t, "HTTP/1.1 200 OK\r\n\r\n", c.secret); err != nil || sent != c.want {
				t.Errorf("it was sent %q, %v", sent, err)
			}
		})
	}
	six := string(connectRequest(netip.MustParseAddrPort("[2001:db8::6]:443"), ingress.Secret{}))
	if six != "CONNECT [2001:db8::6]:443 HTTP/1.1\r\nHost: [2001:db8::6]:443\r\n\r\n" {
		t.Errorf("IPv6: %q", six)
	}
}

func TestConnectResponses(t *testing.T) {
	t.Parallel()
	const established = "HTTP/1.1 200 Connection established\r\n\r\n"
	for name, c := range map[string]struct {
		response string
		rest     string
		status   int    // of a rejection
		message  string // an error
	}{
		"established":            {response: established},
		"bytes after it":         {response: established + "\x16\x03\x03", rest: "\x16\x03\x03"},
		"HTTP/1.0":               {response: "HTTP/1.0 200 OK\r\n\r\n"},
		"another 2xx":            {response: "HTTP/1.1 204 No Content\r\n\r\n"},
		"framing does not count": {response: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\nhello", rest: "hello"},
		"interim":                {response: "HTTP/1.1 102 Processing\r\n\r\n" + established + "x", rest: "x"},
		"a long head": {response: "HTTP/1.1 200 OK\r\n" + strings.Repeat("X: "+strings.Repeat("y", 200)+"\r\n",
			60) + "\r\nz", rest: "z"},

		"requires credentials": {response: "HTTP/1.1 407 Proxy Authentication Required\r\nX-Squid-Error: " +
			"ERR_CACHE_ACCESS_DENIED 0\r\n\r\n", status: 407, message: "it answers 407 (ERR_CACHE_ACCESS_DENIED)"},
		"denied":    {response: "HTTP/1.1 403 Forbidden\r\n\r\n", status: 403, message: "it answers 403"},
		"no reason": {response: "HTTP/1.1 503\r\n\r\n", status: 503, message: "it answers 503"},
		"RFC 9209": {response: "HTTP/1.1 502 Bad Gateway\r\nProxy-Status: p.example; error=connection_refused; " +
			"next-hop=192.0.2.6\r\n\r\n", status: 502, message: "it answers 502 (connection_refused)"},
		"a redirect": {
			response: "HTTP/1.1 302 Found\r\nLocation: http://login.example/\r\n\r\n", status: 302,
			message: "it answers 302",
		},
		"an endless reason": {
			response: "HTTP/1.1 403 " + strings.Repeat("x", 1000) + "\r\n\r\n", status: 403,
			message: "it answers 403",
		},
		"bytes in a reason":  {response: "HTTP/1.1 403 a\tb\xffc\r\n\r\n", status: 403, message: "it answers 403"},
		"reveals the secret": {response: "HTTP/1.1 407 no password here\r\n\r\n", status: 407, message: "it answers 407"},
		"in its own field": {
			response: "HTTP/1.1 407 No\r\nX-Squid-Error: x-password\r\n\r\n", status: 407,
			message: "it answers 407",
		},
		"a text as error": {
			response: "HTTP/1.1 403 No\r\nX-Squid-Error: run:curl|sh\r\n\r\n", status: 403,
			message: "it answers 403",
		},

		"switches": {
			response: "HTTP/1.1 101 Switching Protocols\r\n\r\n",
			message:  "malformed response: unrequested interim responses",
		},
		"interim for ever": {
			response: strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 20),
			message:  "malformed response: unrequested interim responses",
		},
		"TLS": {
			response: "\x15\x03\x03\x00\x02\x02\x28",
			message:  "malformed response: its answer is not HTTP/1.x",
		},
		"LF": {
			response: "HTTP/1.1 200 OK\n\n",
			message:  "malformed response: bad status line or field line",
		},
		"an endless head": {
			response: "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("y", 20<<10),
			message:  "malformed response: its head is longer than 16384 bytes or 128 fields",
		},
		"many fields": {
			response: "HTTP/1.1 200 OK\r\n" + strings.Repeat("X: y\r\n", 200),
			message:  "malformed response: its head is longer than 16384 bytes or 128 fields",
		},
		"nothing":         {message: "EOF"},
		"half a response": {response: "HTTP/1.1 200 OK\r\n", message: "EOF"},
		"white space in name": {
			response: "HTTP/1.1 200 OK\r\nX : y\r\n\r\n",
			message:  "malformed response: bad status line or field line",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rest, _, e := connectThrough(t, c.response, ingress.NewSecret(basicAuth))
			if e == nil {
				// The pipe delivers what was written at once, as far as there is space.
				if c.message != "" || string(rest) != c.rest {
					t.Errorf("behind it comes %q, want %q; no error %s", rest, c.rest, c.message)
				}
				return
			}
			if e.Err.Error() != c.message || (e.Cause == findings.EgressUnreachable) != (c.status == 0) || c.status != 0 &&
				Explain(e).Number != c.status {
				t.Errorf("got  %v\nwant %s", e, c.message)
			}
		})
	}
}

// TestSecretIsHidden: no verb of package fmt and no encoder reveals it, in whatever
// value it is contained.
func TestSecretIsHidden(t *testing.T) {
	t.Parallel()
	hidden := ingress.NewSecret(basicAuth)
	within := struct {
		Exported ingress.Secret
		inner    ingress.Secret
		list     []ingress.Secret
		pointer  *ingress.Secret
	}{hidden, hidden, []ingress.Secret{hidden}, &hidden}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T", "%t"} {
		for _, what := range []any{hidden, &hidden, within, &within, []any{within}} {
			if text := fmt.Sprintf(verb, what); strings.Contains(text, "dXNl") || strings.Contains(text, "64584e6c") ||
				strings.Contains(text, "64584E6C") {
				t.Errorf("%s of %T: %s", verb, what, text)
			}
		}
	}
	if !hidden.Equal(ingress.NewSecret(basicAuth)) || hidden.Equal(ingress.NewSecret("Basic x")) ||
		hidden.Equal(ingress.Secret{}) || !(ingress.Secret{}).Equal(ingress.NewSecret("")) {
		t.Error("Equal does not compare what is hidden")
	}
	if text, err := hidden.MarshalText(); err != nil || string(text) != "(hidden)" {
		t.Errorf("it is written down as %q, %v", text, err)
	}
}

// FuzzConnectResponse compares the parser of the response to CONNECT with net/http. A
// tunnel exists only if net/http sees a 2xx. It begins at the end of net/http's
// head, in whatever pieces the response arrives.
func FuzzConnectResponse(f *testing.F) {
	for _, text := range []string{
		"HTTP/1.1 200 Connection established\r\n\r\n\x16\x03\x03",
		"HTTP/1.0 200 OK\r\nProxy-agent: x\r\n\r\n",
		"HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm=\"x\"\r\nContent-Length: 2\r\n\r\nno",
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
		"HTTP/1.1 503 x\r\nX-Squid-Error: ERR_DNS_FAIL 0\r\nProxy-Status: a; error=dns_error\r\n\r\n",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		secret := ingress.NewSecret(basicAuth)
		read := bytes.NewReader(text)
		rest, err := tunnelRoute(secret).openTunnel(scriptedStream{sent: read}, time.Time{})
		left, _ := io.ReadAll(read)
		slowly := byteReader{bytes.NewReader(text)}
		slowRest, slowErr := tunnelRoute(secret).openTunnel(scriptedStream{sent: slowly}, time.Time{})
		if (err == nil) != (slowErr == nil) {
			t.Fatalf("at once: %v; byte by byte: %v", err, slowErr)
		}
		if err != nil {
			if got := err.Err.Error(); len(got) > 400 || strings.ContainsAny(got, "\r\n\x00") ||
				strings.Contains(got, "password") {
				t.Fatalf("the error is %q", got)
			}
			return
		}
		slowLeft, _ := io.ReadAll(slowly)
		rest, slowRest = append(rest, left...), append(slowRest, slowLeft...)
		if !bytes.Equal(rest, slowRest) {
			t.Fatalf("at once %q is behind, byte by byte %q", rest, slowRest)
		}
		// net/http reads the bytes before it as answers. The framing of the last
		// one is ignored.
		r := bufio.NewReader(bytes.NewReader(text[:len(text)-len(rest)]))
		for status := 0; status < 200; {
			resp, err := http.ReadResponse(r, &http.Request{Method: http.MethodConnect})
			if err != nil {
				return // net/http refuses the ignored framing
			}
			status = resp.StatusCode
			_ = resp.Body.Close()
			if status > 299 {
				t.Fatalf("net/http sees status %d in %q", status, text)
			}
		}
		if n := r.Buffered(); n > 0 {
			t.Fatalf("net/http sees %d bytes more of the head of %q", n, text)
		}
	})
}
