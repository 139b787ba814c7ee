// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/prober/protocol"
)

// TestProxyRequestHasTheRequestsDeadline: the exchange gets exactly the time of the
// request.
func TestProxyRequestHasTheRequestsDeadline(t *testing.T) {
	t.Parallel()
	want := time.Now().Add(time.Hour)
	ctx, cancel := context.WithDeadline(t.Context(), want)
	defer cancel()
	request, err := proxyRequest(ctx, &protocol.FetchRequest{
		Host: "example.com", Path: "/.well-known/acme-challenge/token", UserAgent: "test",
		ViaProxy: &protocol.ProxyExchange{Client: netip.MustParseAddrPort("192.0.2.10:40000"), VIP: netip.MustParseAddrPort("192.0.2.5:80")},
	})
	if err != nil {
		t.Fatal(err)
	}
	if !request.Deadline.Equal(want) {
		t.Errorf("deadline %v, want %v", request.Deadline, want)
	}
}
