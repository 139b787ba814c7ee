// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"crypto/subtle"
	"net/http"
	"strings"
)

// Pulls counts the requests of others than the owner.
type Pulls struct {
	Requests     int // all requests
	Unauthorized int // without credentials, like a client's first request, or with wrong ones
	Manifests    int // successful downloads
	Blobs        int // successful downloads
}

// Since returns the difference to an earlier count.
func (p Pulls) Since(before Pulls) Pulls {
	return Pulls{
		Requests:     p.Requests - before.Requests,
		Unauthorized: p.Unauthorized - before.Unauthorized,
		Manifests:    p.Manifests - before.Manifests,
		Blobs:        p.Blobs - before.Blobs,
	}
}

// Pulls returns the count since the registry was created, without requests that an outage
// blocked.
func (r *Registry) Pulls() Pulls {
	r.counting.Lock()
	defer r.counting.Unlock()
	return r.pulls
}

func (r *Registry) count(status int, request *http.Request) {
	r.counting.Lock()
	defer r.counting.Unlock()
	r.pulls.Requests++
	switch {
	case status == http.StatusUnauthorized:
		r.pulls.Unauthorized++
	case status != http.StatusOK || request.Method != http.MethodGet:
	case strings.Contains(request.URL.Path, "/manifests/"):
		r.pulls.Manifests++
	case strings.Contains(request.URL.Path, "/blobs/"):
		r.pulls.Blobs++
	}
}

// serve allows the owner everything, the nodes to read, and others nothing.
func (r *Registry) serve(w http.ResponseWriter, request *http.Request) {
	if r.stalled.Load() {
		r.count(0, request)
		<-request.Context().Done()
		return
	}
	if r.owner.matches(request) {
		r.content.ServeHTTP(w, request)
		return
	}
	seen := &statusWriter{ResponseWriter: w, status: http.StatusOK}
	defer func() { r.count(seen.status, request) }()
	switch {
	case !r.nodes.matches(request):
		// The error format of the distribution specification (OCI, "Error Codes") with the
		// challenge of RFC 7617.
		seen.Header().Set("WWW-Authenticate", `Basic realm="lab"`)
		seen.Header().Set("Content-Type", "application/json")
		seen.WriteHeader(http.StatusUnauthorized)
		_, _ = seen.Write([]byte(`{"errors":[{"code":"UNAUTHORIZED","message":"authentication required"}]}`))
	case r.denied.Load():
		seen.Header().Set("Content-Type", "application/json")
		seen.WriteHeader(http.StatusForbidden)
		_, _ = seen.Write([]byte(`{"errors":[{"code":"DENIED","message":"requested access to the resource is denied"}]}`))
	case request.Method != http.MethodGet && request.Method != http.MethodHead:
		seen.WriteHeader(http.StatusForbidden)
	default:
		r.content.ServeHTTP(seen, request)
	}
}

// matches reports whether a request has the account's credentials.
func (a account) matches(request *http.Request) bool {
	user, password, given := request.BasicAuth()
	return given && user == a.user && subtle.ConstantTimeCompare([]byte(password), []byte(a.password)) == 1
}

// statusWriter records an answer's status.
type statusWriter struct {
	http.ResponseWriter

	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}
