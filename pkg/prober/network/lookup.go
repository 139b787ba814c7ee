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

	"github.com/http01-proxyd/http01-proxyd/pkg/prober"
)

// queryTimeout bounds one query: a packet may get lost, and Go's resolver would wait
// for 5 s before it asks again.
const queryTimeout = time.Second

// What Go's resolver calls answers (net, checkHeader and tryOneName).
const (
	// serverMisbehaving is one with an error.
	serverMisbehaving = "server misbehaving"
	// lameReferral is an empty one of a server that neither has the name's zone nor asks
	// others: it has no record.
	lameReferral = "lame referral"
)

// lookupName asks one server. The resolver's files cannot be opened here, which it
// takes for their being absent.
func lookupName(ctx context.Context, q *prober.LookupRequest) *prober.LookupResult {
	for {
		found, err := lookupOnce(ctx, q)
		var failed *net.DNSError
		switch {
		case err == nil:
			return found
		case errors.As(err, &failed) && (failed.IsNotFound || failed.Err == lameReferral):
			return &prober.LookupResult{}
		case errors.As(err, &failed) && failed.Err == serverMisbehaving:
			return &prober.LookupResult{Failure: prober.ServerError}
		case ctx.Err() != nil || failed == nil || !failed.IsTimeout:
			return &prober.LookupResult{Failure: prober.ServerSilent}
		}
	}
}

func lookupOnce(ctx context.Context, q *prober.LookupRequest) (*prober.LookupResult, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, q.Server.String())
	}}
	network := "ip4"
	if q.IPv6 {
		network = "ip6"
	}
	// The dot at the end keeps search domains away.
	list, err := resolver.LookupNetIP(ctx, network, strings.TrimSuffix(q.Name, ".")+".")
	if err != nil {
		return nil, err
	}
	for i := range list {
		list[i] = list[i].Unmap()
	}
	slices.SortFunc(list, netip.Addr.Compare)
	return &prober.LookupResult{Addresses: list[:min(len(list), prober.MaxAddresses)]}, nil
}
