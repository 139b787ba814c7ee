// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/host/resolve"
)

// lookupTime bounds the question to one DNS server.
const lookupTime = 3 * time.Second

// Resolver finds names as this host does, by its files; the child asks the servers.
func (c *Client) Resolver(conf, hosts string) resolve.Resolver {
	return resolve.Resolver{Conf: conf, Hosts: hosts, Ask: c.lookup}
}

func (c *Client) lookup(ctx context.Context, server netip.AddrPort, name string, ipv6 bool) ([]netip.Addr, error) {
	ctx, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	a, err := c.Ask(ctx, Question{Lookup: &LookupQuestion{Server: server, Name: name, IPv6: ipv6}})
	switch {
	case err != nil:
		return nil, err
	case a.Lookup.Failure == ServerFails:
		return nil, errors.New("answers with an error")
	case a.Lookup.Failure != "":
		return nil, errors.New("does not answer")
	default:
		return a.Lookup.Addresses, nil
	}
}
