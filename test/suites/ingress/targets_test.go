// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// otherTargets returns addresses and names that an attacker could make the proxy connect to.
func (p *fixture) otherTargets() []string {
	return []string{
		"127.0.0.1:22", "[::1]:6443", "169.254.169.254", p.API.V4.String() + ":6443", "[" + p.API.V6.String() + "]:22623",
		p.Internet.Addresses.V4.String(), "[" + p.Internet.Addresses.V6.String() + "]", p.Pods[0].Addresses.V4.String() +
			":8080",
		"canary.lab.test", "canary.lab.test:8443", "kubernetes.default.svc",
	}
}

// otherLocations returns Location headers of a hostile router.
func (p *fixture) otherLocations() []string {
	var all []string
	for _, at := range p.otherTargets() {
		all = append(all,
			"https://"+at+acmePath+"x", "http://"+at+acmePath+"x", "//"+at+acmePath+"x",
			"https://"+apiName+"@"+at+acmePath+"x", "https://"+at+"#@"+apiName+acmePath+"x", "https://"+apiName+".:443@"+at+"/",
			"https:\\\\"+at+acmePath+"x", "https:/"+at+"/", "ftp://"+at+"/", "gopher://"+at+"/_x",
		)
	}
	return append(all, "file:///etc/passwd", "unix:///run/http01-proxyd/status.sock", "https://", "https://:443/", "\t",
		"https://"+apiName+":0"+acmePath+"x",
		"https://"+apiName+":6443"+acmePath+"x", "https://"+apiName+"%00.lab.test/", "https://["+
			p.Internet.Addresses.V6.String()+"%25lo]/")
}

// countOtherConnections counts new connections and datagrams from the holder to other
// addresses. The certificate watcher's connections to port 6443 of the API VIPs do not
// count.
func (p *fixture) countOtherConnections(t *testing.T, allowed ...lab.Pair) {
	t.Helper()
	var v4, v6 []string
	for _, a := range allowed {
		v4, v6 = append(v4, a.V4.String()), append(v6, a.V6.String())
	}
	rules := fmt.Sprintf(`table inet watch {
	counter elsewhere { }
	chain output {
		type filter hook output priority 10;
		ct state != new accept
		meta l4proto != { tcp, udp } accept
		ip daddr { %s } accept
		ip6 daddr { %s } accept
		ip daddr %s tcp dport 6443 accept
		ip6 daddr %s tcp dport 6443 accept
		counter name elsewhere
	}
}`, strings.Join(v4, ", "), strings.Join(v6, ", "), p.API.V4, p.API.V6)
	_, err := p.holder().Input(t.Context(), rules, "nft", "-f", "-")
	must(t, err)
	t.Cleanup(func() {
		_, err := p.holder().Run(context.Background(), "nft", "delete", "table", "inet", "watch")
		must(t, err)
	})
}

// expectNoOtherConnections fails the test when the holder connected to other addresses.
func (p *fixture) expectNoOtherConnections(t *testing.T) {
	t.Helper()
	if text := p.otherConnections(t); !strings.Contains(text, "packets 0 ") {
		t.Errorf("the holder connected to other addresses: %s", text)
	}
}

// otherConnections returns the counter of countOtherConnections.
func (p *fixture) otherConnections(t *testing.T) string {
	t.Helper()
	text, err := p.holder().Run(t.Context(), "nft", "list", "counter", "inet", "watch", "elsewhere")
	must(t, err)
	return text
}

// TestConnectsOnlyToIngress holds that the holder connects only to the ingress, whatever
// clients and the router send. A test server replaces the router, because a real one sends
// no such answers.
func TestConnectsOnlyToIngress(t *testing.T) {
	p := newFixture(t)
	requests := p.startHostileRouter(t)
	s := p.serve(t, p.holder().DefaultConfig()+p.upstreamConfig(t, "", shared.pki.root))
	p.countOtherConnections(t, p.Ingress)
	p.sendHostileRequests(t)
	p.expectNoOtherConnections(t)
	if n := requests(); n < len(p.otherLocations()) {
		t.Errorf("only %d requests at the router", n)
	}
	// A single attempt must be counted.
	if conn, err := p.holder().Dial(t.Context(), "tcp", web(p.Internet.Addresses.V4)); err == nil {
		_ = conn.Close()
	}
	if text := p.otherConnections(t); !strings.Contains(text, "packets 1 ") {
		t.Errorf("the attempt was not counted: %s", text)
	}
	must(t, s.Alive())
}

// TestConnectsOnlyToIngressThroughProxy holds the same for requests to the egress proxy.
func TestConnectsOnlyToIngressThroughProxy(t *testing.T) {
	p := newFixture(t)
	p.startHostileRouter(t)
	p.startEgressProxy(t, lab.EgressOptions{})
	p.serve(t, p.outsideVIPs()+p.upstreamConfig(t, "", shared.pki.root)+
		p.egressConfig(t, p.Egress.URL("http", "", lab.EgressName)))
	// the proxy, and the DNS server that resolves its name
	p.countOtherConnections(t, p.Egress.Addresses, lab.Pair{V4: p.Internet.Addresses.V4, V6: p.Egress.Addresses.V6})
	p.sendHostileRequests(t)
	p.expectNoOtherConnections(t)
	lines, err := p.Egress.Requests()
	must(t, err)
	allowed := regexp.MustCompile(
		` (GET http://api\.lab\.test/\.well-known/acme-challenge/|CONNECT (203\.0\.113\.6|\[fd4e:5f2a:9c01:3::6\]):443 )`)
	seen := 0
	for _, line := range lines {
		// Connections without a request test whether the proxy listens.
		if strings.Contains(line, "error:transaction-end-before-headers") {
			continue
		}
		seen++
		if !allowed.MatchString(line) {
			t.Errorf("unexpected request at the proxy: %s", line)
		}
	}
	if seen < len(p.otherLocations()) {
		t.Errorf("only %d requests at the proxy", seen)
	}
}

// sendHostileRequests sends requests for other targets, and one for each Location.
func (p *fixture) sendHostileRequests(t *testing.T) {
	t.Helper()
	var requests []string
	for _, at := range p.otherTargets() {
		requests = append(
			requests,
			"GET "+acmePath+"host HTTP/1.1\r\nHost: "+at+"\r\n\r\n",
			"GET "+acmePath+"self HTTP/1.1\r\nHost: "+at+"\r\n\r\n",
			"GET "+acmePath+"host HTTP/1.1\r\nHost: "+apiName+"@"+at+"\r\n\r\n",
			"GET "+acmePath+"host HTTP/1.1\r\nHost: "+apiName+"\r\nHost: "+at+"\r\n\r\n",
			"GET http://"+at+acmePath+"host HTTP/1.1\r\nHost: "+apiName+"\r\n\r\n",
			"GET http://"+at+acmePath+"host HTTP/1.1\r\nHost: "+at+"\r\n\r\n",
			"GET "+acmePath+"host HTTP/1.1\r\nHost: "+apiName+"\r\nX-Forwarded-Host: "+at+"\r\nForwarded: host="+at+"\r\n\r\n",
			"CONNECT "+at+" HTTP/1.1\r\nHost: "+at+"\r\n\r\n",
			"GET "+acmePath+"host?url=http://"+at+"/ HTTP/1.1\r\nHost: "+apiName+"\r\nConnection: close\r\n\r\n",
			"GET "+acmePath+"host HTTP/1.0\r\n\r\n",
		)
	}
	for i := range p.otherLocations() {
		requests = append(requests, fmt.Sprintf("GET %slocation-%d HTTP/1.1\r\nHost: %s\r\n\r\n", acmePath, i, apiName))
	}
	for _, request := range requests {
		for _, vip := range p.API.Both() {
			begin := time.Now()
			text, err := p.Internet.Raw(t.Context(), web(vip), request)
			if err != nil {
				t.Errorf("%q: %v", request, err)
			}
			if d := time.Since(begin); d > time.Second {
				t.Logf("%v %q %.200q", d, request, text)
			}
		}
	}
}

// startHostileRouter replaces the router until the test ends. On every address of the
// worker, over http and https, it answers location-N with the N-th location, and self with
// a redirect to https of the requested host. The returned function returns the number of
// requests.
func (p *fixture) startHostileRouter(t *testing.T) func() int {
	t.Helper()
	must(t, p.Internet.SetName(t.Context(), "canary.lab.test", p.Internet.Addresses))
	must(t, p.Worker.StopRouter(t.Context()))
	t.Cleanup(func() { must(t, p.Worker.StartRouter(context.Background(), lab.RouterOptions{})) })
	locations := p.otherLocations()
	requests := make(chan struct{}, 1<<16)
	handler := func(w http.ResponseWriter, r *http.Request) {
		requests <- struct{}{}
		name := strings.TrimPrefix(r.URL.Path, acmePath)
		location := "https://" + r.Host + r.URL.Path
		var n int
		if _, err := fmt.Sscanf(name, "location-%d", &n); err == nil && n < len(locations) {
			location = locations[n]
		}
		// Set directly, because net/http would correct the value.
		w.Header()["Location"] = []string{location}
		w.Header().Set("Alt-Svc", `h2="canary.lab.test:443"`)
		w.Header().Set("Refresh", "0; url=http://canary.lab.test/")
		w.WriteHeader(http.StatusFound)
	}
	p.startBackend(t, ":80", handler)
	identity := p.appsIdentity(t)
	pair, err := identity.TLS()
	must(t, err)
	listener, err := p.Worker.Listen(t.Context(), ":443")
	must(t, err)
	stop := lab.Serve(listener, &tls.Config{Certificates: []tls.Certificate{*pair}, MinVersion: tls.VersionTLS12},
		http.HandlerFunc(handler))
	t.Cleanup(func() { must(t, stop()) })
	return func() int { return len(requests) }
}
