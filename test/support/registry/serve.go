// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"crypto/subtle"
	"net/http"
)

// Pulls counts the requests of others than the owner.
type Pulls struct{ Requests int64 }

// Since returns the difference to an earlier count.
func (p Pulls) Since(before Pulls) Pulls { return Pulls{p.Requests - before.Requests} }

// Pulls returns the count since the registry was created, without requests that an outage
// blocked.
func (r *Registry) Pulls() Pulls { return Pulls{r.requests.Load()} }

// serve allows the owner everything, the nodes to read, and others nothing.
func (r *Registry) serve(w http.ResponseWriter, request *http.Request) {
	if !r.owner.matches(request) {
		r.requests.Add(1)
	}
	if r.stalled.Load() {
		<-request.Context().Done()
		return
	}
	switch {
	case r.owner.matches(request):
		r.content.ServeHTTP(w, request)
	case !r.nodes.matches(request):
		// The error format of the distribution specification (OCI, "Error Codes") with the
		// challenge of RFC 7617.
		w.Header().Set("WWW-Authenticate", `Basic realm="lab"`)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write([]byte(`{"errors":[{"code":"UNAUTHORIZED","message":"authentication required"}]}`))
	case r.denied.Load():
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte(`{"errors":[{"code":"DENIED","message":"requested access to the resource is denied"}]}`))
	case request.Method != http.MethodGet && request.Method != http.MethodHead:
		w.WriteHeader(http.StatusForbidden)
	default:
		r.content.ServeHTTP(w, request)
	}
}

// matches reports whether a request carries the account's credentials.
func (a account) matches(request *http.Request) bool {
	user, password, given := request.BasicAuth()
	return given && user == a.user && subtle.ConstantTimeCompare([]byte(password), []byte(a.password)) == 1
}
