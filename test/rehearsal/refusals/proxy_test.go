// SPDX-License-Identifier: Apache-2.0

package refusals_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/http01-proxyd/http01-proxyd/test/rehearsal/cluster"
	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// outage is a time during which the API server fails.
type outage struct {
	status int           // of its answers
	after  string        // pattern of the last request that succeeds, as "METHOD PATH"; "": none does
	times  int           // how often that request succeeds before, if more than once
	lasts  time.Duration // from the first request that fails
}

// proxy is in front of the API server. It forwards requests, and answers them itself during an outage.
type proxy struct {
	URL       string
	Authority []byte // of its certificate, in PEM

	forward http.Handler

	mu     sync.Mutex
	outage outage
	passed int       // requests that match outage.after
	began  time.Time // of the outage
	writes []string  // requests that changed an object
}

// newProxy starts a proxy on the node of the API server.
func newProxy(t *testing.T, api *cluster.Cluster) *proxy {
	t.Helper()
	node := api.Lab.Gateway
	authority := must1(lab.NewAuthority("proxy"))(t)
	loopback := netip.MustParseAddr("127.0.0.1")
	identity := must1(authority.Issue(lab.ServerCertificate{Addresses: []netip.Addr{loopback}}))(t)
	certificate := must1(identity.TLS())(t)
	listener := must1(node.Listen(t.Context(), net.JoinHostPort(loopback.String(), "0")))(t)
	trust := x509.NewCertPool()
	trust.AppendCertsFromPEM(api.Trust)
	forward := httputil.NewSingleHostReverseProxy(must1(url.Parse(api.Config.Host))(t))
	forward.Transport = &http.Transport{
		DialContext: node.Dial, TLSClientConfig: &tls.Config{RootCAs: trust, MinVersion: tls.VersionTLS12},
	}
	p := &proxy{URL: "https://" + listener.Addr().String(), Authority: authority.Certificate(), forward: forward}
	forward.ModifyResponse = p.record
	stop := lab.Serve(listener, &tls.Config{
		Certificates: []tls.Certificate{*certificate}, MinVersion: tls.VersionTLS12,
	}, p)
	t.Cleanup(func() { must(t, stop()) })
	return p
}

// fail begins an outage with the next request, or after the request that it names.
func (p *proxy) fail(o outage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.outage, p.passed, p.began = o, 0, time.Time{}
}

// happened reports whether a request failed.
func (p *proxy) happened() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.began.IsZero()
}

// takeWrites returns the requests since the last call that changed an object.
func (p *proxy) takeWrites() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.writes
	p.writes = nil
	return all
}

// decide returns the status with which a request fails, or 0.
func (p *proxy) decide() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.outage
	if o.status != 0 && p.began.IsZero() && (o.after == "" || p.passed >= max(o.times, 1)) {
		p.began = time.Now()
	}
	if !p.began.IsZero() && time.Since(p.began) < o.lasts {
		return o.status
	}
	return 0
}

// record keeps a request that succeeded.
func (p *proxy) record(r *http.Response) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	line := r.Request.Method + " " + r.Request.URL.Path
	switch {
	case r.StatusCode >= http.StatusMultipleChoices:
		return nil
	case r.Request.Method != http.MethodGet:
		p.writes = append(p.writes, line)
	}
	if p.outage.after != "" && regexp.MustCompile(p.outage.after).MatchString(line) {
		p.passed++
	}
	return nil
}

// ServeHTTP fails as an API server does: without its etcd, or with more requests than its limit.
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch status := p.decide(); status {
	case 0:
		p.forward.ServeHTTP(w, r)
	case http.StatusTooManyRequests:
		w.Header().Set("Retry-After", strconv.Itoa(1))
		http.Error(w, "Too many requests, please try again later.", status)
	default:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		answer := apierrors.NewInternalError(errNoEtcd).Status()
		answer.Kind, answer.APIVersion = "Status", "v1"
		_ = json.NewEncoder(w).Encode(answer)
	}
}
