// SPDX-License-Identifier: Apache-2.0

package resolve

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/textfile"
)

// maxAddresses limits the addresses of a name.
const maxAddresses = 16

// queryTimeout limits the queries to one DNS server, so that the next server is queried if the first
// does not answer.
const queryTimeout = 3 * time.Second

// Resolver finds the addresses of names. Query queries one DNS server for the addresses of both
// families, and returns when ctx ends. No address and no error means that there are no
// addresses.
type Resolver struct {
	ConfPath, HostsPath string // paths of resolv.conf(5) and hosts(5)
	Query               func(ctx context.Context, server netip.AddrPort, name string) ([]netip.Addr, error)
}

// Lookup returns the addresses of a name: at least one, or an error.
func (r Resolver) Lookup(ctx context.Context, name string) ([]netip.Addr, error) {
	if addr, err := netip.ParseAddr(name); err == nil {
		return []netip.Addr{addr.Unmap()}, nil
	}
	found, err := r.lookup(ctx, name)
	switch {
	case err != nil:
		return nil, fmt.Errorf("resolve %s: %w", name, err)
	case len(found) == 0:
		return nil, fmt.Errorf("resolve %s: the name has no address in the DNS: "+
			"correct the name, or add an A or AAAA record", name)
	default:
		return found[:min(len(found), maxAddresses)], nil
	}
}

func (r Resolver) lookup(ctx context.Context, name string) ([]netip.Addr, error) {
	if text, err := textfile.Read(r.HostsPath, maxFileBytes); err == nil {
		if found := lookupHosts(string(text), name); len(found) > 0 {
			return found, nil
		}
	}
	c, err := readResolvConf(r.ConfPath)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if len(c.servers) == 0 {
		return nil, fmt.Errorf("no DNS server in %s: add one, or configure the address", r.ConfPath)
	}
	for _, candidate := range c.absoluteNames(name) {
		if found, err := r.queryServers(ctx, c.servers, candidate); err != nil || len(found) > 0 {
			return found, err
		}
	}
	return nil, nil
}

func (r Resolver) queryServers(ctx context.Context, servers []netip.AddrPort, name string) ([]netip.Addr, error) {
	var failed []string
	for _, server := range servers {
		within, cancel := context.WithTimeout(ctx, queryTimeout)
		found, err := r.Query(within, server, name)
		cancel()
		if err == nil {
			return found, nil
		}
		failed = append(failed, fmt.Sprintf("the DNS server %v %v", server.Addr(), err))
	}
	return nil, errors.New(strings.Join(failed, ", "))
}
