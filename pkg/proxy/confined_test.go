// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/internal/child"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/protocol"
)

// TestMain also runs the proxy, as the controller starts it.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == child.Proxy {
		conn, err := child.Connect()
		if err == nil {
			err = RunConfined(context.Background(), conn)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestConfinedTLS: a proxy that can open no file and make few system calls verifies routers by
// the CAs of its commands, never by this host's.
func TestConfinedTLS(t *testing.T) {
	t.Parallel()
	proxy, err := child.Start(child.Proxy, child.NewOutput(func(line string) { t.Log(line) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.KillAndClose)
	k := &testController{T: t, Parent: proxy.Parent, events: make(chan protocol.Event, 100)}
	go func() {
		defer close(k.events)
		for {
			var w protocol.Event
			if err := proxy.Receive(&w); err != nil {
				return
			}
			k.events <- w
		}
	}()
	secure, secureConnections := newCountingServer(t, answerChallenge)
	secure.StartTLS()
	plain, plainConnections := newCountingServer(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://api.example.com"+r.RequestURI, http.StatusFound)
	})
	plain.Start()
	of := func(s *httptest.Server) netip.AddrPort { return netip.MustParseAddrPort(s.Listener.Addr().String()) }
	configure := configure(of(plain), nil)
	configure.Upstream.HTTPSPort, configure.Upstream.FollowRedirects, configure.Upstream.VerifyNames = of(secure).Port(),
		true, []string{"example.com"}
	k.command(protocol.Command{CAs: &ingress.CABundle{Description: "no CA"}}, -1)
	k.command(protocol.Command{Configure: configure}, -1)
	k.listen()
	expect := func(what string, code int, causeID string) {
		t.Helper()
		// The previous commands have been executed when this one is answered.
		k.command(protocol.Command{Flush: &protocol.Flush{}}, -1)
		k.awaitEvent("the end of the flush", func(w protocol.Event) bool { return w.Flushed != nil })
		if got := k.getForHost("api.example.com"); got != code {
			t.Errorf("%s: %d, want %d", what, got, code)
		}
		var last protocol.Challenge
		k.awaitEvent("the challenge", func(w protocol.Event) bool {
			if w.Stats != nil && len(w.Stats.Challenges) > 0 {
				last = w.Stats.Challenges[len(w.Stats.Challenges)-1]
			}
			return last.Status != 0
		})
		failure := cause.Failure{}
		if last.Failure != nil {
			failure = *last.Failure
		}
		if failure.Cause != causeID {
			t.Errorf("%s: %+v, want %q", what, failure, causeID)
		}
	}
	expect("nothing is trusted", 502, "ingress-tls-untrusted")
	k.command(protocol.Command{CAs: &ingress.CABundle{
		Roots:       [][]byte{secure.Certificate().Raw},
		Description: "the test's CA",
	}}, -1)
	expect("after a redirect", 200, "")
	configure.Upstream.TLS = true
	k.command(protocol.Command{Configure: configure}, -1)
	expect("TLS from the start", 200, "")
	before := secureConnections.Load()
	expect("TLS on a kept connection", 200, "")
	if n := secureConnections.Load() - before; n != 0 {
		t.Errorf("%d new connections: the filter permits no kept ones", n)
	}
	k.command(protocol.Command{CAs: &ingress.CABundle{Description: "no CA"}}, -1)
	expect("nothing is trusted any more", 502, "ingress-tls-untrusted")
	configure.Upstream.TLS, configure.Upstream.FollowRedirects = false, false
	k.command(protocol.Command{Configure: configure}, -1)
	const requests, loops = 6, 2
	before = plainConnections.Load()
	for range requests {
		expect("not followed", 302, "route-redirects-https")
	}
	if n := plainConnections.Load() - before; n > loops {
		t.Errorf("%d new connections for %d requests, want one for each event loop: the filter permits no kept ones", n,
			requests)
	}
}

// newCountingServer returns a server that is not started, and the number of its connections.
func newCountingServer(t *testing.T, handle http.HandlerFunc) (*httptest.Server, *atomic.Int32) {
	t.Helper()
	s, connections := httptest.NewUnstartedServer(handle), new(atomic.Int32)
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	t.Cleanup(s.Close)
	return s, connections
}

// getForHost requests a challenge of host.
func (k *testController) getForHost(host string) int {
	k.Helper()
	client := http.Client{
		Timeout: testTimeout, Transport: &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	req, err := http.NewRequestWithContext(k.Context(), http.MethodGet, k.url+token, strings.NewReader(""))
	if err != nil {
		k.Fatal(err)
	}
	req.Host = host
	resp, err := client.Do(req)
	if err != nil {
		k.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}
