// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"crypto/subtle"
	"net/http"
	"strings"
)

// Pulls counts what others than the owner have asked for. Two of them can be
// compared and subtracted.
type Pulls struct {
	Requests     int // all of them
	Unauthorized int // without credentials, as a client's first one is, or with wrong ones
	Manifests    int // that were handed out
	Blobs        int // that were handed out
}

// Since is what came after an earlier count.
func (p Pulls) Since(before Pulls) Pulls {
	return Pulls{
		Requests:     p.Requests - before.Requests,
		Unauthorized: p.Unauthorized - before.Unauthorized,
		Manifests:    p.Manifests - before.Manifests,
		Blobs:        p.Blobs - before.Blobs,
	}
}

// Pulls is the count since the registry was made. What an outage keeps from
// arriving is not in it.
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

// serve lets the owner do everything, the nodes read, and nobody else anything.
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
		// As the distribution specification wants it of a refusal (OCI, "Error
		// Codes"); the challenge is that of RFC 7617.
		seen.Header().Set("WWW-Authenticate", `Basic realm="lab"`)
		seen.Header().Set("Content-Type", "application/json")
		seen.WriteHeader(http.StatusUnauthorized)
		_, _ = seen.Write([]byte(`{"errors":[{"code":"UNAUTHORIZED","message":"authentication required"}]}`))
	case request.Method != http.MethodGet && request.Method != http.MethodHead:
		seen.WriteHeader(http.StatusForbidden)
	default:
		r.content.ServeHTTP(seen, request)
	}
}

// matches tells whether a request has the account's credentials.
func (a account) matches(request *http.Request) bool {
	user, password, given := request.BasicAuth()
	return given && user == a.user && subtle.ConstantTimeCompare([]byte(password), []byte(a.password)) == 1
}

// statusWriter remembers an answer's status.
type statusWriter struct {
	http.ResponseWriter

	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}
