// SPDX-License-Identifier: Apache-2.0

package host_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/http01-proxyd/http01-proxyd/test/host"
)

const prefix = "/.well-known/acme-challenge/"

// router stands for the ingress: it listens on port 80 of the worker and
// answers every challenge with the key authorization of its token.
type router struct {
	server *http.Server
	served chan error

	mu   sync.Mutex
	seen []*http.Request
}

func newRouter(ctx context.Context, worker *host.Host) (*router, error) {
	ln, err := worker.Listen(ctx, ":80")
	if err != nil {
		return nil, err
	}
	r := &router{served: make(chan error, 1)}
	r.server = &http.Server{Handler: r, ReadHeaderTimeout: 10 * time.Second}
	go func() { r.served <- r.server.Serve(ln) }()
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

// asked lists the requests for a token.
func (r *router) asked(token string) []*http.Request {
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

func (r *router) close() error {
	err := r.server.Close()
	if served := <-r.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

func keyAuthorization(token string) string { return token + ".thumbprint" }
