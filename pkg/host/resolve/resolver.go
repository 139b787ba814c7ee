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
	"sync"

	"github.com/http01-proxyd/http01-proxyd/internal/textfile"
)

// maxAddresses limits the addresses of a name.
const maxAddresses = 16

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

// queryServers queries the servers in order until one answers.
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
	var found [2][]netip.Addr
	var failed [2]error
	var all sync.WaitGroup
	for i, ipv6 := range []bool{false, true} {
		all.Go(func() { found[i], failed[i] = r.Query(ctx, server, name, ipv6) })
	}
	all.Wait()
	together := slices.Concat(found[0], found[1])
	if len(together) > 0 {
		return together, nil
	}
	return nil, errors.Join(failed[0], unlessEqual(failed[1], failed[0]))
}

// unlessEqual returns err unless its text equals that of other.
func unlessEqual(err, other error) error {
	if err != nil && other != nil && err.Error() == other.Error() {
		return nil
	}
	return err
}
