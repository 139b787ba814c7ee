// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
)

// requestFrom is a request of a client for a VIP.
func requestFrom(client, vip string) *Request {
	r := newRequest()
	r.Client, r.VIP = addrPort(client), addrPort(vip)
	return r
}

// settingsFor are settings for a real HAProxy, with or without TLS.
func settingsFor(router netip.AddrPort, trust *TrustedCAs, version ingress.ProxyProtocol) Settings {
	s := Settings{Upstream: ingress.Upstream{
		Addresses: []netip.Addr{router.Addr()}, Port: router.Port(),
		ConnectTimeout: testTimeout, ProxyProtocol: version,
	}}
	if trust != nil {
		s.HTTPSPort, s.TLS, s.TrustedCAs = router.Port(), true, trust
	}
	return s
}

// certificateFile is a router's certificate in HAProxy's format.
func certificateFile(t *testing.T, c tls.Certificate) string {
	t.Helper()
	var text bytes.Buffer
	for _, der := range c.Certificate {
		_ = pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: der})
	}
	key, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	_ = pem.Encode(&text, &pem.Block{Type: "PRIVATE KEY", Bytes: key})
	path := filepath.Join(t.TempDir(), "router.pem")
	if err := os.WriteFile(path, text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

var proxyProtocolClients = []struct{ client, vip, want string }{
	{"198.51.100.7:40123", "192.0.2.5:80", "198.51.100.7:40123 192.0.2.5:80"},
	{"198.51.100.8:1", "192.0.2.5:80", "198.51.100.8:1 192.0.2.5:80"},
	{"[2001:db8::7]:40123", "[2001:db8::5]:80", "2001:db8::7:40123 2001:db8::5:80"},
}

// TestProxyProtocolPerClient: a real HAProxy sees each request with its client's
// address, with and without TLS, direct and through a tunnel. No connection can
// therefore serve two requests.
func TestProxyProtocolPerClient(t *testing.T) {
	t.Parallel()
	p := newPKI(t)
	file := certificateFile(t, serverCertificate(t, p.intermediate, nil, api))
	plain := startHAProxy(t, "accept-proxy", returnsAddresses)
	secure := startHAProxy(t, "accept-proxy ssl crt "+file, returnsAddresses)
	for _, version := range []ingress.ProxyProtocol{ingress.ProxyProtocolV1, ingress.ProxyProtocolV2} {
		byTLS := settingsFor(secure, p.trustedCAs(), version)
		byTLS.Egress.ProxyCAs = ingress.CABundle{Roots: [][]byte{p.root.Raw}}
		for name, s := range map[string]Settings{
			"plain": settingsFor(plain, nil, version), "TLS": byTLS,
			"TLS through a proxy":        (&fakeEgressProxy{}).start(t).routeThrough(byTLS, ""),
			"TLS through a proxy by TLS": (&fakeEgressProxy{tls: p.config(t, proxyName)}).start(t).routeThrough(byTLS, ""),
		} {
			t.Run(fmt.Sprintf("v%d %s", version, name), func(t *testing.T) {
				t.Parallel()
				c := newClient(t, s)
				for _, test := range proxyProtocolClients {
					status, body, e := doExchange(t, c, requestFrom(test.client, test.vip))
					if status != 200 || body != test.want || e != nil {
						t.Errorf("%d %q, want %q; %v", status, body, test.want, e)
					}
					wantIdle(t, c, 0, "the request of one client")
				}
			})
		}
	}
}

// TestProxyProtocolMismatch: a real HAProxy gets no expected header, or an
// unexpected one. The sentence contains the configuration key to change.
func TestProxyProtocolMismatch(t *testing.T) {
	t.Parallel()
	p := newPKI(t)
	file := certificateFile(t, serverCertificate(t, p.intermediate, nil, api))
	const answers = "\thttp-request return status 200 content-type text/plain string token.key\n"
	expects, not := startHAProxy(t, "accept-proxy", answers), startHAProxy(t, "", answers)
	expectsTLS, notTLS := startHAProxy(t, "accept-proxy ssl crt "+file, answers), startHAProxy(t, "ssl crt "+file, answers)
	const key = "upstream.proxyProtocol"
	for name, test := range map[string]struct {
		s      Settings
		causes []findings.ID
		status int // that was forwarded
	}{
		"expected, off": {
			settingsFor(expects, nil, ingress.ProxyProtocolOff),
			[]findings.ID{findings.IngressClosedConnection, findings.IngressResetConnection},
			0,
		},
		"expected with TLS, off": {
			settingsFor(expectsTLS, p.trustedCAs(), ingress.ProxyProtocolOff),
			[]findings.ID{findings.IngressClosedConnection, findings.IngressResetConnection},
			0,
		},
		"v1, not expected": {
			settingsFor(not, nil, ingress.ProxyProtocolV1),
			[]findings.ID{findings.IngressPROXYProtocol},
			400,
		},
		"v2, not expected": {
			settingsFor(not, nil, ingress.ProxyProtocolV2),
			[]findings.ID{findings.IngressPROXYProtocol},
			400,
		},
		"v1, not expected with TLS": {
			settingsFor(notTLS, p.trustedCAs(), ingress.ProxyProtocolV1),
			[]findings.ID{findings.IngressClosedConnection, findings.IngressResetConnection, findings.IngressTLSHandshake},
			0,
		},
		"v2, not expected with TLS": {
			settingsFor(notTLS, p.trustedCAs(), ingress.ProxyProtocolV2),
			[]findings.ID{findings.IngressClosedConnection, findings.IngressResetConnection, findings.IngressTLSHandshake},
			0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status, _, e := doExchange(t, newClient(t, test.s), requestFrom("198.51.100.7:40123", "192.0.2.5:80"))
			if e == nil || !strings.Contains(e.Detail(), key) || status != test.status {
				t.Fatalf("%d, %v: %+v", status, e, e)
			}
			t.Log(e.Detail())
			if !slices.Contains(test.causes, e.Cause) {
				t.Fatalf("the cause is %s", e.Cause)
			}
			if code := e.ClientStatus; (code == 0) != (status != 0) {
				t.Errorf("the client gets %d", code)
			}
		})
	}
}

// TestProxyProtocolAndBadRequest: a router that completed TLS accepted the header,
// and its 400 has another reason.
func TestProxyProtocolAndBadRequest(t *testing.T) {
	t.Parallel()
	p := newPKI(t)
	secure := startHAProxy(t, "accept-proxy ssl crt "+certificateFile(t, serverCertificate(t, p.intermediate, nil, api)),
		"\thttp-request return status 400\n")
	for _, version := range []ingress.ProxyProtocol{ingress.ProxyProtocolV1, ingress.ProxyProtocolV2} {
		status, _, e := doExchange(t, newClient(t, settingsFor(secure, p.trustedCAs(), version)),
			requestFrom("198.51.100.7:40123", "192.0.2.5:80"))
		if status != 400 || e != nil {
			t.Errorf("v%d: %d, %v", version, status, e)
		}
	}
}
