// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/lab"
)

// TestParts asks the router through the egress proxy, without the service: what
// the other tests stand on.
func TestParts(t *testing.T) {
	p := at(t)
	p.router(t, lab.RouterOptions{Secure: p.apps(t)})
	const user, password = "lab", "s3cret of the lab"
	for _, tt := range []struct {
		name   string
		proxy  lab.EgressOptions
		scheme string
		user   *url.Userinfo
		issuer string
	}{
		{name: "through", scheme: "http", issuer: "Lab Intermediate CA"},
		{
			name: "authentication", scheme: "http", issuer: "Lab Intermediate CA",
			proxy: lab.EgressOptions{User: user, Password: password}, user: url.UserPassword(user, password),
		},
		{
			name: "TLS to the proxy", scheme: "https",
			proxy: lab.EgressOptions{Secure: issue(t, shared.pki.egress, lab.ServerCertificate{Addresses: p.Egress.Addresses.Both()})},
		},
		{
			name: "man in the middle", scheme: "http", issuer: "Lab Bump CA",
			proxy: lab.EgressOptions{Bump: shared.pki.bump, Trust: lab.Bundle(shared.pki.root)},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p.proxy(t, tt.proxy)
			client := p.throughProxy(&url.URL{Scheme: tt.scheme, User: tt.user, Host: p.Egress.At(p.Egress.Addresses.V6)})
			asks(t, client, "http://"+apiName+"/nothing")
			if tt.issuer == "" {
				return // this client takes one name for both handshakes
			}
			client.Transport.(*http.Transport).TLSClientConfig.ServerName = "console.apps." + p.Domain
			if got := asks(t, client, "https://["+p.Outside.V6.String()+"]/nothing"); got != tt.issuer {
				t.Errorf("presented was a certificate of %s", got)
			}
		})
	}
	t.Run("no way there but through it", func(t *testing.T) {
		for _, a := range p.Outside.Both() {
			if conn, err := p.holder().Dial(t.Context(), "tcp", web(a)); err == nil {
				_ = conn.Close()
				t.Errorf("connected to %s", a)
			}
		}
	})
}

// throughProxy is a client on the holder that trusts all of the lab's CAs.
func (p *place) throughProxy(proxy *url.URL) *http.Client {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(lab.Bundle(shared.pki.root, shared.pki.bump, shared.pki.egress))
	return &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, Proxy: http.ProxyURL(proxy), DialContext: p.holder().Dial,
		TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
	}}
}

// asks wants the router's own answer, that there is no route, and returns the
// issuer of what was presented, if anything was.
func asks(t *testing.T, client *http.Client, url string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	must(t, err)
	response, err := client.Do(request)
	must(t, err)
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusServiceUnavailable || strings.Contains(response.Header.Get("X-Squid-Error"), "ERR") {
		t.Errorf("%s: %s %v", url, response.Status, response.Header)
	}
	if response.TLS == nil {
		return ""
	}
	return response.TLS.PeerCertificates[0].Issuer.CommonName
}
