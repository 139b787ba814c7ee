// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/probe"
)

// lookupTry bounds one query: a packet may get lost, and Go's resolver would wait
// for 5 s before it asks again.
const lookupTry = time.Second

// lame is what Go's resolver calls an empty answer of a server that neither has
// the name's zone nor asks others (net, checkHeader): it has no record.
const lame = "lame referral"

// lookup asks one server. The resolver's files cannot be opened here, which it
// takes for their being absent.
func lookup(ctx context.Context, q *probe.LookupQuestion) (*probe.Lookup, error) {
	for {
		found, err := lookupOnce(ctx, q)
		var failed *net.DNSError
		if err == nil || ctx.Err() != nil || !errors.As(err, &failed) || !failed.IsTimeout {
			return found, err
		}
	}
}

func lookupOnce(ctx context.Context, q *probe.LookupQuestion) (*probe.Lookup, error) {
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
	var failed *net.DNSError
	if errors.As(err, &failed) && (failed.IsNotFound || failed.Err == lame) {
		return &probe.Lookup{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("ask %v: %w", q.Server, err)
	}
	for i := range list {
		list[i] = list[i].Unmap()
	}
	slices.SortFunc(list, netip.Addr.Compare)
	return &probe.Lookup{Addresses: list[:min(len(list), probe.MaxAddresses)]}, nil
}
