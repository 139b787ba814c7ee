// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
)

// EndpointRequest requests a URL, usually through an egress proxy. Both URLs may contain
// credentials and must never be printed.
type EndpointRequest struct {
	URL   string           `json:"url"`
	Proxy string           `json:"proxy"` // empty: no proxy
	Addrs []netip.AddrPort `json:"addrs"` // of the proxy, or of the URL's host: tried in order
	Roots [][]byte         `json:"roots"` // DER: trusted for TLS, with the proxy too
}

// Format prints no URL, whatever the verb is.
func (q EndpointRequest) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "endpoint request to %v with %d CAs", q.Addrs, len(q.Roots))
}

// EndpointResult is the result of an [EndpointRequest].
type EndpointResult struct {
	Status      int            `json:"status"`           // of the answer; 0: no answer
	ProxyStatus int            `json:"proxyStatus"`      // with which the proxy refused CONNECT; 0: not refused
	LastAddr    netip.AddrPort `json:"lastAddr"`         // the last address tried
	Details     cause.Details  `json:"details,omitzero"` // why there was no answer
	Total       time.Duration  `json:"total"`
}

func (r *EndpointResult) sanitize() {
	r.Status, r.ProxyStatus = validStatus(r.Status), validStatus(r.ProxyStatus)
	r.Total = max(0, r.Total)
}

// OK reports whether OpenShift's cluster-network-operator would accept the answer
// (runHTTPReadinessProbe of pkg/controller/proxyconfig/validation.go): 2xx or 3xx.
func (r *EndpointResult) OK() bool { return r.Status >= 200 && r.Status < 400 }
