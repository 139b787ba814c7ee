// SPDX-License-Identifier: Apache-2.0

package route

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/jsimonetti/rtnetlink/v2"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/internal/rtnl"
)

// Route is the route to an address.
type Route struct {
	Link    uint32     // outgoing link; the loopback link for an address of this host
	Gateway netip.Addr // invalid if the address is on the link's own network
	Source  netip.Addr // source address of the packets
	Local   bool       // the address belongs to this host
}

// Get returns the route to an address according to the routing policy for packets of this
// host.
func Get(addr netip.Addr) (Route, error) {
	m, err := queryRoute(addr, 0)
	if err != nil {
		return Route{}, err
	}
	r := Route{Link: m.Attributes.OutIface, Local: m.Type == unix.RTN_LOCAL}
	if via, ok := netip.AddrFromSlice(m.Attributes.Gateway); ok {
		r.Gateway = via.Unmap()
	}
	if source, ok := netip.AddrFromSlice(m.Attributes.Src); ok {
		r.Source = source.Unmap()
	}
	return r, nil
}

// queryRoute requests the route to an address from the kernel. flags are the flags of rtmsg
// (rtnetlink(7)).
func queryRoute(addr netip.Addr, flags uint32) (rtnetlink.RouteMessage, error) {
	request := &rtnetlink.RouteMessage{
		Family: unix.AF_INET, DstLength: uint8(addr.BitLen()), //nolint:gosec // 32 or 128
		Flags:      flags,
		Attributes: rtnetlink.RouteAttributes{Dst: addr.AsSlice()},
	}
	if addr.Is6() {
		request.Family = unix.AF_INET6
	}
	var found []rtnetlink.RouteMessage
	err := rtnl.Do(func(c *rtnetlink.Conn) (err error) {
		found, err = c.Route.Get(request)
		return err
	})
	if err == nil && len(found) == 0 {
		err = errors.New("the kernel returned no route")
	}
	if err != nil {
		return rtnetlink.RouteMessage{}, fmt.Errorf("look up the route to %v: %w", addr, err)
	}
	return found[0], nil
}

// Match returns the destination network and the link of the route to an address. found is false
// without a route and for an unreachable, blackhole or prohibit route, which leads nowhere.
func Match(addr netip.Addr) (network netip.Prefix, link uint32, found bool, err error) {
	m, err := queryRoute(addr, unix.RTM_F_FIB_MATCH)
	for _, none := range []error{unix.ENETUNREACH, unix.EHOSTUNREACH, unix.EINVAL, unix.EACCES} {
		if errors.Is(err, none) {
			return netip.Prefix{}, 0, false, nil
		}
	}
	if err != nil || m.Type == unix.RTN_UNREACHABLE { // the type of an IPv6 route
		return netip.Prefix{}, 0, false, err
	}
	to, ok := netip.AddrFromSlice(m.Attributes.Dst)
	if !ok { // a default route carries no destination
		to = netip.IPv4Unspecified()
		if addr.Is6() {
			to = netip.IPv6Unspecified()
		}
	}
	return netip.PrefixFrom(to.Unmap(), int(m.DstLength)), m.Attributes.OutIface, true, nil
}

// InTable reports whether a routing table contains a route to exactly this address.
func InTable(table uint32, addr netip.Addr) (found bool, err error) {
	all, err := tableRoutes(table, addr.Is6())
	if err != nil {
		return false, fmt.Errorf("list the routes in table %d: %w", table, err)
	}
	return slices.ContainsFunc(all, func(m rtnetlink.RouteMessage) bool {
		to, known := netip.AddrFromSlice(m.Attributes.Dst)
		return known && int(m.DstLength) == addr.BitLen() && to.Unmap() == addr
	}), nil
}

// DefaultLinks returns the links of the default routes in the main table, in the kernel's order. As in
// k8s.io/apimachinery the prefix length is ignored, so a route to 0.0.0.0/1, which VPNs add, counts as
// well, and a route of IPv6 requires a gateway.
func DefaultLinks() (v4, v6 []uint32, err error) {
	all4, err4 := tableRoutes(unix.RT_TABLE_MAIN, false)
	all6, err6 := tableRoutes(unix.RT_TABLE_MAIN, true)
	if err := errors.Join(err4, err6); err != nil {
		return nil, nil, fmt.Errorf("list the default routes: %w", err)
	}
	for _, m := range slices.Concat(all4, all6) {
		list, a := &v4, m.Attributes
		if m.Family == unix.AF_INET6 {
			list = &v6
		}
		to, known := netip.AddrFromSlice(a.Dst)
		if known && !to.IsUnspecified() || m.Type != unix.RTN_UNICAST {
			continue
		}
		link, via := a.OutIface, a.Gateway
		if len(a.Multipath) > 0 {
			link, via = a.Multipath[0].Hop.IfIndex, a.Multipath[0].Gateway
		}
		if (m.Family == unix.AF_INET || via != nil) && !slices.Contains(*list, link) {
			*list = append(*list, link)
		}
	}
	return v4, v6, nil
}

// tableRoutes returns the routes of one table and family. The kernel selects them: other tables
// can contain many routes of pods. A table that does not exist contains no routes.
func tableRoutes(table uint32, ipv6 bool) (routes []rtnetlink.RouteMessage, err error) {
	request := &rtnetlink.RouteMessage{Family: unix.AF_INET, Attributes: rtnetlink.RouteAttributes{Table: table}}
	if ipv6 {
		request.Family = unix.AF_INET6
	}
	var replies []rtnetlink.Message
	err = rtnl.Do(func(c *rtnetlink.Conn) (err error) {
		// Without this option, the kernel ignores the attributes of a dump (Linux 4.20,
		// NETLINK_GET_STRICT_CHK).
		if err := c.SetOption(netlink.GetStrictCheck, true); err != nil {
			return err
		}
		replies, err = c.Execute(request, unix.RTM_GETROUTE, netlink.Request|netlink.Dump)
		return err
	})
	if errors.Is(err, unix.ENOENT) {
		return nil, nil
	}
	for _, reply := range replies {
		// A kernel without IPv6 returns the routes of IPv4.
		if m, is := reply.(*rtnetlink.RouteMessage); is && m.Family == request.Family {
			routes = append(routes, *m)
		}
	}
	return routes, err
}
