// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/prober/protocol"
)

// queryTimeout bounds one query: a packet may get lost, and Go's resolver waits for 5 s
// before it sends another.
const queryTimeout = time.Second

// Error texts of Go's resolver (net, checkHeader and tryOneName).
const (
	// serverMisbehaving is an answer with an error.
	serverMisbehaving = "server misbehaving"
	// lameReferral is an empty answer of a server that has no zone for the name and
	// does not recurse: it has no record.
	lameReferral = "lame referral"
)

// lookupName queries one server. The resolver cannot open its files here and treats them
// as absent.
func lookupName(ctx context.Context, q *protocol.LookupRequest) *protocol.LookupResult {
	for {
		found, err := lookupOnce(ctx, q)
		var failed *net.DNSError
		switch {
		case err == nil:
			return found
		case errors.As(err, &failed) && (failed.IsNotFound || failed.Err == lameReferral):
			return &protocol.LookupResult{}
		case errors.As(err, &failed) && failed.Err == serverMisbehaving:
			return &protocol.LookupResult{Failure: protocol.ServerError}
		case ctx.Err() != nil || failed == nil || !failed.IsTimeout:
			return &protocol.LookupResult{Failure: protocol.ServerSilent}
		}
	}
}

func lookupOnce(ctx context.Context, q *protocol.LookupRequest) (*protocol.LookupResult, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, q.Server.String())
	}}
	network := "ip4"
	if q.IPv6 {
		network = "ip6"
	}
	// The final dot disables search domains.
	list, err := resolver.LookupNetIP(ctx, network, strings.TrimSuffix(q.Name, ".")+".")
	if err != nil {
		return nil, err
	}
	for i := range list {
		list[i] = list[i].Unmap()
	}
	slices.SortFunc(list, netip.Addr.Compare)
	return &protocol.LookupResult{Addresses: list[:min(len(list), protocol.MaxAddresses)]}, nil
}
