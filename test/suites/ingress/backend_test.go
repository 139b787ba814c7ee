// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"context"
	"net"
	"net/http"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// startBackend serves HTTP on an address of the worker until the test ends, and returns its
// port.
func (p *fixture) startBackend(t *testing.T, address string, handler http.HandlerFunc) int {
	t.Helper()
	listener, err := p.Worker.Listen(t.Context(), address)
	must(t, err)
	stop := lab.Serve(listener, nil, handler)
	t.Cleanup(func() { must(t, stop()) })
	return listener.Addr().(*net.TCPAddr).Port
}

// routeToBackend routes all challenges of a host to a backend of the test.
func (p *fixture) routeToBackend(t *testing.T, host string, handler http.HandlerFunc) {
	t.Helper()
	r, err := p.Worker.AddRoute(t.Context(), host, "/.well-known/acme-challenge", p.startBackend(t, "127.0.0.1:0",
		handler))
	must(t, err)
	t.Cleanup(func() { must(t, r.Remove(context.Background())) })
}
