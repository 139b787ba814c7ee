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

// lookupTry bounds one query: a packet may get lost, and Go's resolver would wait
// for 5 s before it asks again.
const lookupTry = time.Second

// What Go's resolver calls answers (net, checkHeader and tryOneName).
const (
	// misbehaving is one with an error.
	misbehaving = "server misbehaving"
	// lame is an empty one of a server that neither has the name's zone nor asks
	// others: it has no record.
	lame = "lame referral"
)

// lookup asks one server. The resolver's files cannot be opened here, which it
// takes for their being absent.
func lookup(ctx context.Context, q *prober.LookupQuestion) *prober.Lookup {
	for {
		found, err := lookupOnce(ctx, q)
		var failed *net.DNSError
		switch {
		case err == nil:
			return found
		case errors.As(err, &failed) && (failed.IsNotFound || failed.Err == lame):
			return &prober.Lookup{}
		case errors.As(err, &failed) && failed.Err == misbehaving:
			return &prober.Lookup{Failure: prober.ServerFails}
		case ctx.Err() != nil || failed == nil || !failed.IsTimeout:
			return &prober.Lookup{Failure: prober.ServerSilent}
		}
	}
}

func lookupOnce(ctx context.Context, q *prober.LookupQuestion) (*prober.Lookup, error) {
	ctx, cancel := context.WithTimeout(ctx, lookupTry)
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
	return &prober.Lookup{Addresses: list[:min(len(list), prober.MaxAddresses)]}, nil
}
