// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// TestDeferredIdleTermination: after a reload, the router's previous process answers 503 to the first
// request for a new challenge on a kept connection. The client gets the response of the current
// process.
func TestDeferredIdleTermination(t *testing.T) {
	const maxHosts = 30
	p := newFixture(t)
	for name, upstream := range map[string]string{"http": "", "https": https} {
		t.Run(name, func(t *testing.T) {
			p.restartRouter(t, lab.RouterOptions{Secure: p.appsIdentity(t), DeferIdleTermination: true})
			p.serve(t, directConfig(upstream, shared.pki.root)(t, p))
			// Each event loop of the proxy keeps connections of its own, so that a kept one carries
			// some of the requests only. One request a second is repeated for each host.
			for i := range maxHosts {
				host := fmt.Sprintf("%s-%d.lab.test", name, i)
				p.expectSolved(t, host, fmt.Sprintf("keeps-a-connection-%s-%d", name, i))
				token := fmt.Sprintf("of-a-new-route-%s-%d", name, i)
				p.expectSolved(t, host, token)
				if p.gotStaleResponse(t, token) {
					return
				}
			}
			t.Errorf("no previous process of the router answered one of %d challenges", maxHosts)
		})
	}
}

// expectSolved sends one challenge request for a new route.
func (p *fixture) expectSolved(t *testing.T, host, token string) {
	t.Helper()
	s, err := p.Solve(t.Context(), host, token, token+".thumbprint")
	must(t, err)
	t.Cleanup(func() { must(t, s.Remove(context.Background())) })
	text, err := p.challenge(t.Context(), p.API.V4, host, token)
	must(t, err)
	if !strings.HasPrefix(text, "HTTP/1.1 200 ") || !strings.HasSuffix(text, token+".thumbprint") {
		t.Errorf("the challenge %s of %s got %.200q", token, host, text)
	}
}

// gotStaleResponse reports whether the router logged 503 for a token.
func (p *fixture) gotStaleResponse(t *testing.T, token string) bool {
	t.Helper()
	log, err := p.Worker.RouterLog()
	must(t, err)
	for line := range strings.Lines(log) {
		if strings.Contains(line, token) && strings.Contains(line, " 503 ") {
			return true
		}
	}
	return false
}
