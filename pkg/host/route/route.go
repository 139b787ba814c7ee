// SPDX-License-Identifier: Apache-2.0

package route

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/jsimonetti/rtnetlink/v2"
	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/internal/rtnl"
)

// Route is the way to an address.
type Route struct {
	Link    uint32     // by which packets leave; the loopback for an address of this host
	Gateway netip.Addr // the router; not valid where the address is on the link's own network
	Source  netip.Addr // from which they are sent
	Local   bool       // the address is this host's
}

// Get is the way to an address, as the routing policy has it for what this host
// sends.
func Get(addr netip.Addr) (Route, error) {
	found, err := queryRoute(addr, 0)
	if err == nil && len(found) == 0 {
		err = errors.New("the kernel gives none")
	}
	if err != nil {
		return Route{}, fmt.Errorf("find the way to %v: %w", addr, err)
	}
	m := found[0]
	r := Route{Link: m.Attributes.OutIface, Local: m.Type == unix.RTN_LOCAL}
	if via, is := netip.AddrFromSlice(m.Attributes.Gateway); is {
		r.Gateway = via.Unmap()
	}
	if source, is := netip.AddrFromSlice(m.Attributes.Src); is {
		r.Source = source.Unmap()
	}
	return r, nil
}

// queryRoute asks the kernel for the route that packets to an address take; flags are of
// rtmsg (rtnetlink(7)).
func queryRoute(addr netip.Addr, flags uint32) (found []rtnetlink.RouteMessage, err error) {
	request := &rtnetlink.RouteMessage{
		Family: unix.AF_INET, DstLength: uint8(addr.BitLen()), //nolint:gosec // 32 or 128
		Flags:      flags,
		Attributes: rtnetlink.RouteAttributes{Dst: addr.AsSlice()},
	}
	if addr.Is6() {
		request.Family = unix.AF_INET6
	}
	err = rtnl.Do(func(c *rtnetlink.Conn) (err error) {
		found, err = c.Route.Get(request)
		return err
	})
	return found, err
}

// Neighbour is a host that this one has spoken with.
type Neighbour struct {
	IP           netip.Addr
	HardwareAddr string // its hardware address, in the usual form
}

// Neighbours are those on a link whose hardware addresses are known.
func Neighbours(link uint32) ([]Neighbour, error) {
	var found []rtnetlink.NeighMessage
	err := rtnl.Do(func(c *rtnetlink.Conn) (err error) {
		found, err = c.Neigh.List()
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list the neighbours: %w", err)
	}
	var list []Neighbour
	for _, m := range found {
		if m.Index != link || m.Attributes == nil || len(m.Attributes.LLAddress) == 0 {
			continue
		}
		if ip, is := netip.AddrFromSlice(m.Attributes.Address); is {
			list = append(list, Neighbour{ip.Unmap(), m.Attributes.LLAddress.String()})
		}
	}
	return list, nil
}
