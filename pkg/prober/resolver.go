// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/host/resolve"
)

// lookupTimeout bounds the question to one DNS server.
const lookupTimeout = 3 * time.Second

// Resolver finds names as this host does, by its files; the child asks the servers.
func (c *Client) Resolver(conf, hosts string) resolve.Resolver {
	return resolve.Resolver{ConfPath: conf, HostsPath: hosts, Query: c.lookup}
}

func (c *Client) lookup(ctx context.Context, server netip.AddrPort, name string, ipv6 bool) ([]netip.Addr, error) {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	a, err := c.Query(ctx, Request{Lookup: &LookupRequest{Server: server, Name: name, IPv6: ipv6}})
	switch {
	case err != nil:
		return nil, err
	case a.Lookup.Failure == ServerError:
		return nil, errors.New("answers with an error")
	case a.Lookup.Failure != "":
		return nil, errors.New("does not answer")
	default:
		return a.Lookup.Addresses, nil
	}
}
