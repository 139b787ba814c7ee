// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// probedName is a name for which the router has another CA's certificate.
const probedName = "probed.lab.test"

// TestBundleChangesUnderLoad changes the bundle under load without a failed request: those in
// flight complete with the earlier CAs.
func TestBundleChangesUnderLoad(t *testing.T) {
	const changes, clients = 30, 4
	p := newFixture(t)
	p.restartRouter(t, lab.RouterOptions{
		Secure: p.appsIdentity(t), Named: issue(t, shared.pki.second, lab.ServerCertificate{Names: []string{probedName}}),
	})
	p.routeToBackend(t, apiName, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("the answer")) })
	without, with := lab.Bundle(shared.pki.root), lab.Bundle(shared.pki.root, shared.pki.second)
	path := p.writeHostFile(t, "ca-bundle.crt", without)
	s := p.serve(t, p.holder().DefaultConfig()+p.upstreamAt(https, path)+"limits: {perSource: 0}\n")

	ctx, stop := context.WithCancel(t.Context())
	var requested, failed atomic.Int64
	var all sync.WaitGroup
	for i := range clients {
		vip := p.API.Both()[i%2]
		all.Go(func() {
			for ctx.Err() == nil {
				text, err := p.challenge(t.Context(), vip, apiName, "requested-under-load")
				requested.Add(1)
				if err != nil || !strings.HasPrefix(text, "HTTP/1.1 200 ") {
					if failed.Add(1) <= 3 {
						t.Errorf("answer %.200q, %v", text, err)
					}
				}
			}
		})
	}
	for i := range changes {
		text, want := with, "HTTP/1.1 503 " // trusted, and the router has no route for this name
		if i%2 == 1 {
			text, want = without, "HTTP/1.1 502 "
		}
		replaceFile(t, path, text)
		if err := p.awaitBundle(ctx, want); err != nil {
			t.Errorf("change %d: %v\n%s", i, err, s.Tail(10))
			break
		}
	}
	stop()
	all.Wait()
	if failed.Load() > 0 || requested.Load() == 0 {
		t.Errorf("%d of %d requests failed", failed.Load(), requested.Load())
	}
}

// awaitBundle waits for this answer for the name with the other CA's certificate.
func (p *fixture) awaitBundle(ctx context.Context, prefix string) error {
	return lab.Eventually(ctx, prefix, func(ctx context.Context) error {
		text, err := p.challenge(ctx, p.API.V4, probedName, "is-it-in-force")
		if err == nil && !strings.HasPrefix(text, prefix) {
			err = fmt.Errorf("the answer is %.100q", text)
		}
		return err
	})
}
