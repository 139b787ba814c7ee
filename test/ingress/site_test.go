// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"testing"
	"time"
)

// site serves on an address of the worker until the test ends, and returns its
// port.
func (p *place) site(t *testing.T, address string, handler http.HandlerFunc) int {
	t.Helper()
	listener, err := p.Worker.Listen(t.Context(), address)
	must(t, err)
	serveOn(t, listener, handler)
	return listener.Addr().(*net.TCPAddr).Port
}

func serveOn(t *testing.T, listener net.Listener, handler http.HandlerFunc) {
	t.Helper()
	// Who goes away in a handshake is no news.
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0)}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(listener) }()
	t.Cleanup(func() { must(t, server.Close()); <-done })
}

// route leads all challenges of the API's name to a site of the test's own.
func (p *place) route(t *testing.T, host string, handler http.HandlerFunc) {
	t.Helper()
	r, err := p.Worker.AddRoute(t.Context(), host, "/.well-known/acme-challenge", p.site(t, "127.0.0.1:0", handler))
	must(t, err)
	t.Cleanup(func() { must(t, r.Remove(context.Background())) })
}
