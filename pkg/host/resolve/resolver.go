// SPDX-License-Identifier: Apache-2.0

package resolve

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/textfile"
)

// maxAddresses limits the addresses of a name.
const maxAddresses = 16

// queryTimeout limits the queries to one DNS server, so that the next server is queried if the first
// does not answer.
const queryTimeout = 3 * time.Second

// Resolver finds the addresses of names. Query sends one DNS server a query for the addresses of one
// family. No address and no error means that the name has none.
type Resolver struct {
	ConfPath, HostsPath string // paths of resolv.conf(5) and hosts(5)
	Query               func(ctx context.Context, server netip.AddrPort, name string, ipv6 bool) ([]netip.Addr, error)
}

// Lookup returns the addresses of a name: at least one, or an error. It returns when ctx
// ends, even if Query does not.
func (r Resolver) Lookup(ctx context.Context, name string) ([]netip.Addr, error) {
	if addr, err := netip.ParseAddr(name); err == nil {
		return []netip.Addr{addr.Unmap()}, nil
	}
	if text, err := textfile.Read(r.HostsPath, maxFileBytes); err == nil {
		if found := lookupHosts(string(text), name); len(found) > 0 {
			return found[:min(len(found), maxAddresses)], nil
		}
	}
	text, err := textfile.Read(r.ConfPath, maxFileBytes)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("resolve %s: %w", name, err)
	}
	c := parseResolvConf(string(text))
	if len(c.servers) == 0 {
		return nil, fmt.Errorf("resolve %s: no DNS server in %s: add one, or configure the address", name, r.ConfPath)
	}
	for _, candidate := range c.absoluteNames(name) {
		found, err := r.queryServers(ctx, c.servers, candidate)
		if err != nil {
			return nil, fmt.Errorf("resolve %s: %w", name, err)
		}
		if len(found) > 0 {
			return found[:min(len(found), maxAddresses)], nil
		}
	}
	return nil, fmt.Errorf("resolve %s: the name has no address in the DNS: correct the name, or add an A or AAAA record", name)
}

func (r Resolver) queryServers(ctx context.Context, servers []netip.AddrPort, name string) ([]netip.Addr, error) {
	var failed []string
	for _, server := range servers {
		found, err := r.queryBothFamilies(ctx, server, name)
		if err == nil {
			return found, nil
		}
		failed = append(failed, fmt.Sprintf("the DNS server %v %v", server.Addr(), err))
	}
	return nil, errors.New(strings.Join(failed, ", "))
}

// queryBothFamilies queries both families concurrently. The addresses of one family are
// sufficient.
func (r Resolver) queryBothFamilies(ctx context.Context, server netip.AddrPort, name string) ([]netip.Addr, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	v4, v6 := r.query(ctx, server, name, false), r.query(ctx, server, name, true)
	found4, err4 := await(ctx, v4)
	found6, err6 := await(ctx, v6)
	if together := slices.Concat(found4, found6); len(together) > 0 {
		return together, nil
	}
	return nil, errors.Join(err4, unlessEqual(err6, err4))
}

type reply struct {
	addrs []netip.Addr
	err   error
}

func (r Resolver) query(ctx context.Context, server netip.AddrPort, name string, ipv6 bool) <-chan reply {
	replies := make(chan reply, 1) // a late reply does not block its goroutine
	go func() {
		addrs, err := r.Query(ctx, server, name, ipv6)
		replies <- reply{addrs, err}
	}()
	return replies
}

func await(ctx context.Context, replies <-chan reply) ([]netip.Addr, error) {
	select {
	case r := <-replies:
		return r.addrs, r.err
	case <-ctx.Done():
		select {
		case r := <-replies:
			return r.addrs, r.err
		default:
			return nil, errors.New("does not answer")
		}
	}
}

// unlessEqual returns err unless its text equals that of other.
func unlessEqual(err, other error) error {
	if err != nil && other != nil && err.Error() == other.Error() {
		return nil
	}
	return err
}
