// SPDX-License-Identifier: Apache-2.0

package host_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/http01-proxyd/http01-proxyd/test/support/host"
	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

const prefix = "/.well-known/acme-challenge/"

// router replaces the ingress router: it listens on port 80 of the worker and answers every
// challenge with the key authorization of its token.
type router struct {
	stop func() error

	mu   sync.Mutex
	seen []*http.Request
}

func newRouter(ctx context.Context, worker *host.Host) (*router, error) {
	ln, err := worker.Listen(ctx, ":80")
	if err != nil {
		return nil, err
	}
	r := &router{}
	r.stop = lab.Serve(ln, nil, r)
	return r, nil
}

func (r *router) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	r.mu.Lock()
	r.seen = append(r.seen, request)
	r.mu.Unlock()
	token, found := strings.CutPrefix(request.URL.Path, prefix)
	if !found {
		http.NotFound(w, request)
		return
	}
	_, _ = io.WriteString(w, keyAuthorization(token))
}

// requests returns the requests for a token.
func (r *router) requests(token string) []*http.Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []*http.Request
	for _, request := range r.seen {
		if request.URL.Path == prefix+token {
			found = append(found, request)
		}
	}
	return found
}

func keyAuthorization(token string) string { return token + ".thumbprint" }
