// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/prober"
)

// TestProxyRequestHasTheRequestsDeadline: the exchange gets the time of the question,
// and neither more nor less.
func TestProxyRequestHasTheRequestsDeadline(t *testing.T) {
	t.Parallel()
	want := time.Now().Add(time.Hour)
	ctx, cancel := context.WithDeadline(t.Context(), want)
	defer cancel()
	request, err := proxyRequest(ctx, &prober.FetchRequest{
		Host: "example.com", Path: "/.well-known/acme-challenge/token", UserAgent: "test",
		ViaProxy: &prober.ProxyExchange{Client: netip.MustParseAddrPort("192.0.2.10:40000"), VIP: netip.MustParseAddrPort("192.0.2.5:80")},
	})
	if err != nil {
		t.Fatal(err)
	}
	if !request.Deadline.Equal(want) {
		t.Errorf("deadline %v, want %v", request.Deadline, want)
	}
}
