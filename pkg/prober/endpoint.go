// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
)

// EndpointRequest asks whether a URL answers, through a proxy as a rule. Both URLs
// may hold credentials: it is never printed.
type EndpointRequest struct {
	URL   string           `json:"url"`
	Proxy string           `json:"proxy"` // empty: directly
	Addrs []netip.AddrPort `json:"addrs"` // of the proxy, or else of the URL's host: tried in turn
	Roots [][]byte         `json:"roots"` // DER: what is trusted for TLS, to the proxy too
}

// Format writes no URL, whatever the verb is.
func (q EndpointRequest) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "a question through %v with %d CAs", q.Addrs, len(q.Roots))
}

// EndpointResult is how that went.
type EndpointResult struct {
	Status      int            `json:"status"`       // of the answer; 0: there was none
	ProxyStatus int            `json:"denied"`       // of the proxy, which does not connect to there; 0: it does, or was not asked to
	LastAddr    netip.AddrPort `json:"tried"`        // the last address that was tried
	Details     cause.Details  `json:"why,omitzero"` // why there was no answer: what the system or TLS said
	Total       time.Duration  `json:"total"`
}

func (t *EndpointResult) sanitize() {
	for _, status := range []*int{&t.Status, &t.ProxyStatus} {
		if *status < 100 || *status > 999 {
			*status = 0
		}
	}
	t.Total = max(0, t.Total)
}

// OK reports whether it is an answer as OpenShift's cluster-network-operator counts
// them (runHTTPReadinessProbe of pkg/controller/proxyconfig/validation.go): 2xx or
// 3xx.
func (t *EndpointResult) OK() bool { return t.Status >= 200 && t.Status < 400 }
