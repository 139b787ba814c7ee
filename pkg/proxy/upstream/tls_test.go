// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"math/big"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
)

// issuer is a CA of a test.
type issuer struct {
	*x509.Certificate
	key *ecdsa.PrivateKey
}

var serial atomic.Int64

// certificateTemplate is a certificate that is valid now.
func certificateTemplate(name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(serial.Add(1)),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(time.Hour),
	}
}

// newCA creates a CA; with by nil, a root.
func newCA(t testing.TB, ca *issuer, name string, change func(*x509.Certificate)) *issuer {
	t.Helper()
	c := certificateTemplate(name)
	c.IsCA, c.BasicConstraintsValid, c.KeyUsage = true, true, x509.KeyUsageCertSign
	if change != nil {
		change(c)
	}
	made, key := issue(t, ca, c)
	return &issuer{made, key}
}

func issue(t testing.TB, ca *issuer, c *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	parent, signer := c, key
	if ca != nil {
		parent, signer = ca.Certificate, ca.key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	made, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return made, key
}

// serverCertificate creates a router's certificate for names, with its
// intermediates.
func serverCertificate(t testing.TB, ca *issuer, change func(*x509.Certificate), names ...string) tls.Certificate {
	t.Helper()
	c := certificateTemplate("router")
	c.DNSNames, c.ExtKeyUsage = names, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	if change != nil {
		change(c)
	}
	made, key := issue(t, ca, c)
	chain := tls.Certificate{Certificate: [][]byte{made.Raw}, PrivateKey: key}
	if ca != nil && ca.Issuer.CommonName != ca.Subject.CommonName {
		chain.Certificate = append(chain.Certificate, ca.Raw)
	}
	return chain
}

// withoutIntermediates removes the certificate of the issuer.
func withoutIntermediates(c tls.Certificate) tls.Certificate {
	c.Certificate = c.Certificate[:1]
	return c
}

// pki is a trusted root, and an intermediate that routers present.
type pki struct{ root, intermediate *issuer }

func newPKI(t testing.TB) pki {
	t.Helper()
	root := newCA(t, nil, "Lab Root CA", nil)
	return pki{root, newCA(t, root, "Lab Issuing CA", nil)}
}

func (p pki) trustedCAs() *TrustedCAs {
	return NewTrustedCAs([][]byte{p.root.Raw})
}

// tlsRouter is a router that counts its sessions and the bytes of requests.
type tlsRouter struct {
	*testRouter
	resumed, full, bytes atomic.Int64
	names                sync.Map // SNI of the connections
}

// tlsHandler handles a connection over TLS.
type tlsHandler func(n int, conn *tls.Conn, b *bufio.Reader)

func startTLSRouter(t testing.TB, addr string, config *tls.Config, handle tlsHandler) *tlsRouter {
	t.Helper()
	r := &tlsRouter{}
	r.testRouter = startRouter(t, addr, func(n int, tcp *net.TCPConn, _ *bufio.Reader) {
		conn := tls.Server(tcp, config)
		defer conn.Close()
		if conn.Handshake() != nil {
			return
		}
		state := conn.ConnectionState()
		if state.DidResume {
			r.resumed.Add(1)
		} else {
			r.full.Add(1)
		}
		r.names.Store(state.ServerName, true)
		handle(n, conn, bufio.NewReader(countingReader{conn, &r.bytes}))
	})
	return r
}

type countingReader struct {
	io.Reader
	n *atomic.Int64
}

func (c countingReader) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// answersOverTLS answers every request with okResponse and keeps the connection.
func answersOverTLS(_ int, conn *tls.Conn, b *bufio.Reader) {
	for readRequest(b) {
		_, _ = io.WriteString(conn, okResponse)
	}
}

// tlsSettings are the settings for a router with TLS from the start.
func tlsSettings(r *testRouter, trust *TrustedCAs, names ...string) Settings {
	return Settings{Upstream: ingress.Upstream{
		Addresses: []netip.Addr{r.addr.Addr()}, HTTPSPort: r.addr.Port(), TLS: true,
		VerifyNames: names, ConnectTimeout: testTimeout,
	}, TrustedCAs: trust, MaxConnections: 8 * testIdle}
}

func newClient(t testing.TB, s Settings) *Client {
	t.Helper()
	c := New()
	t.Cleanup(c.Close)
	c.maxIdleTime = testTimeout // also on a busy machine
	c.Update(s)
	return c
}

// doExchange runs an exchange and returns its result.
func doExchange(t testing.TB, c *Client, r *Request) (status int, body string, e *Error) {
	t.Helper()
	out, status, _, e := exchangeText(t, c, r)
	_, body, _ = strings.Cut(out, "\r\n\r\n")
	return status, body, e
}

// wantCause checks that an exchange fails with this cause.
func wantCause(t testing.TB, c *Client, r *Request, want findings.ID) {
	t.Helper()
	if _, _, e := doExchange(t, c, r); e == nil || e.Cause != want {
		t.Errorf("%v, want the cause %s", e, want)
	}
}

// TestVerification covers which routers are trusted.
func TestVerification(t *testing.T) {
	t.Parallel()
	p := newPKI(t)
	other := newCA(t, nil, "Other Root CA", nil)
	expired := newCA(t, p.root, "Old Issuing CA", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })
	leaf := newCA(t, p.root, "No CA",
		func(c *x509.Certificate) { c.IsCA, c.KeyUsage = false, x509.KeyUsageDigitalSignature })
	narrow := newCA(t, p.root, "Narrow CA", func(c *x509.Certificate) {
		c.PermittedDNSDomains, c.PermittedDNSDomainsCritical = []string{"example.org"}, true
	})
	const api, apps = "api.example.com", "*.apps.example.com"
	for name, test := range map[string]struct {
		cert    tls.Certificate
		names   []string
		host    string
		empty   bool // nothing is trusted
		want    findings.ID
		message []string
	}{
		"the host's own":            {cert: serverCertificate(t, p.intermediate, nil, api), host: api},
		"one of several":            {cert: serverCertificate(t, p.intermediate, nil, "x.example.com", api), host: api},
		"of the root itself":        {cert: serverCertificate(t, p.root, nil, api), host: api},
		"a wildcard that covers it": {cert: serverCertificate(t, p.intermediate, nil, "*.example.com"), host: api},
		"the applications'": {
			cert: serverCertificate(t, p.intermediate, nil, apps), names: []string{apps},
			host: api,
		},
		"the second of the names": {
			cert:  serverCertificate(t, p.intermediate, nil, apps),
			names: []string{"router.example.com", apps}, host: api,
		},
		"an address": {cert: serverCertificate(t, p.intermediate,
			func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.ParseIP("192.0.2.5")} }), host: "192.0.2.5"},
		"an address of IPv6": {cert: serverCertificate(t, p.intermediate,
			func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.ParseIP("2001:db8::5")} }), host: "[2001:db8::5]"},
		"no host, but a name": {cert: serverCertificate(t, p.intermediate, nil, apps), names: []string{apps}},
		"no host": {
			cert: serverCertificate(t, p.intermediate, nil, api),
			want: findings.IngressTLSName,
		},
		"another name": {
			cert: serverCertificate(t, p.intermediate, nil, "x.example.com"), host: api,
			want: findings.IngressTLSName, message: []string{
				`"router"`, `"x.example.com"`, `"api.example.com"`,
				"upstream.verifyNames",
			},
		},
		"a wildcard is not its members": {
			cert:  serverCertificate(t, p.intermediate, nil, "console.apps.example.com"),
			names: []string{apps}, host: api, want: findings.IngressTLSName, message: []string{`"console.apps.example.com"`},
		},
		"a wildcard one label too short": {
			cert: serverCertificate(t, p.intermediate, nil, "*.com"), host: api,
			want: findings.IngressTLSName,
		},
		"a name of the subject only": {
			cert: serverCertificate(t, p.intermediate,
				func(c *x509.Certificate) { c.Subject.CommonName = api }), host: api, want: findings.IngressTLSName,
			message: []string{"no name"},
		},
		"another CA": {
			cert: serverCertificate(t, other, nil, api), host: api,
			want: findings.IngressTLSUntrusted, message: []string{
				`"router"`, `"Other Root CA"`, "ca-bundle.crt",
				"upstream.trustedCA",
			},
		},
		"another CA, and name": {
			cert: serverCertificate(t, other, nil, "x"), host: api,
			want: findings.IngressTLSUntrusted,
		},
		"self-signed": {
			cert: serverCertificate(t, nil, nil, api), host: api,
			want: findings.IngressTLSUntrusted,
		},
		"nothing is trusted": {
			cert: serverCertificate(t, p.intermediate, nil, api), host: api, empty: true,
			want: findings.IngressTLSUntrusted,
		},
		"without the one between": {
			cert: withoutIntermediates(serverCertificate(t, p.intermediate, nil, api)), host: api,
			want: findings.IngressTLSUntrusted, message: []string{`"Lab Issuing CA"`, "intermediate"},
		},
		"expired": {
			cert: serverCertificate(t, p.intermediate,
				func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }, api), host: api,
			want: findings.IngressTLSExpired, message: []string{"has expired on 20", `"router"`},
		},
		"not valid yet": {
			cert: serverCertificate(t, p.intermediate,
				func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Minute) }, api), host: api,
			want: findings.IngressTLSExpired, message: []string{"is not valid before 20"},
		},
		"the one between has expired": {
			cert: serverCertificate(t, expired, nil, api), host: api,
			want: findings.IngressTLSExpired, message: []string{`"Old Issuing CA"`},
		},
		"issued by what is no CA": {
			cert: serverCertificate(t, leaf, nil, api), host: api,
			want: findings.IngressTLSUntrusted,
		},
		"outside of the CA's names": {
			cert: serverCertificate(t, narrow, nil, api), host: api,
			want: findings.IngressTLSUntrusted,
		},
		"for clients": {
			cert: serverCertificate(t, p.intermediate,
				func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} }, api), host: api,
			want: findings.IngressTLSUntrusted,
		},
		"a text of its own": {cert: serverCertificate(t, other, func(c *x509.Certificate) {
			c.Subject.CommonName = "x\r\n\x1b[31m\u202e" + strings.Repeat("y", 2000)
		}, api), host: api, want: findings.IngressTLSUntrusted},
	} {
		for version, maxVersion := range map[string]uint16{"1.2": tls.VersionTLS12, "1.3": tls.VersionTLS13} {
			t.Run(name+", TLS "+version, func(t *testing.T) {
				t.Parallel()
				r := startTLSRouter(t, "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{test.cert}, MaxVersion: maxVersion},
					answersOverTLS)
				trust := p.trustedCAs()
				if test.empty {
					trust = nil
				}
				c := newClient(t, tlsSettings(r.testRouter, trust, test.names...))
				ask := newRequest()
				ask.Host = test.host
				status, body, e := doExchange(t, c, ask)
				if test.want == "" {
					if status != 200 || body != "token.key" || e != nil {
						t.Errorf("%d %q, %v", status, body, e)
					}
					return
				}
				if e == nil || e.Cause != test.want || e.ClientStatus != 502 || status != 0 || body != "" {
					t.Fatalf("%d %q, %v", status, body, e)
				}
				for _, text := range test.message {
					if !strings.Contains(e.Detail(), text) {
						t.Errorf("%q is not in %q", text, e.Detail())
					}
				}
				if strings.ContainsAny(e.Detail(), "\r\n\x1b\u202e") || len(e.Detail()) > 1024 {
					t.Errorf("not printable: %q", e.Detail())
				}
				r.close()
				if n := r.bytes.Load(); n != 0 {
					t.Errorf("the router got %d bytes of a request", n)
				}
			})
		}
	}
}
