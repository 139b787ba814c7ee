// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/prober/protocol"
)

// lookupTimeout bounds the request to one DNS server.
const lookupTimeout = 3 * time.Second

// Lookup queries one DNS server for the addresses of a name. It is the query function of
// a resolver with the files of this host (pkg/host/resolve).
func (c *Client) Lookup(ctx context.Context, server netip.AddrPort, name string, ipv6 bool) ([]netip.Addr, error) {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	r, err := c.Query(ctx, protocol.Request{Lookup: &protocol.LookupRequest{Server: server, Name: name, IPv6: ipv6}})
	switch {
	case err != nil:
		return nil, err
	case r.Lookup.Failure == protocol.ServerError:
		return nil, errors.New("answers with an error")
	case r.Lookup.Failure != "":
		return nil, errors.New("does not answer")
	default:
		return r.Lookup.Addresses, nil
	}
}
