// SPDX-License-Identifier: Apache-2.0

package route

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/jsimonetti/rtnetlink/v2"
	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/internal/rtnl"
)

// Match is the route that packets to an address take: the network it leads to, and
// its link. Without one, and with an unreachable default one, found is false; any
// other unreachable one is an EHOSTUNREACH.
func Match(addr netip.Addr) (network netip.Prefix, link uint32, found bool, err error) {
	answer, err := queryRoute(addr, unix.RTM_F_FIB_MATCH)
	if errors.Is(err, unix.ENETUNREACH) {
		return netip.Prefix{}, 0, false, nil
	}
	if errors.Is(err, unix.EHOSTUNREACH) {
		refused, listErr := hasUnreachableRoute(addr)
		if !refused && listErr == nil {
			return netip.Prefix{}, 0, false, nil
		}
		err = errors.Join(err, listErr)
	}
	if err == nil && len(answer) == 0 {
		err = errors.New("the kernel gives none")
	}
	if err != nil {
		return netip.Prefix{}, 0, false, fmt.Errorf("find the route to %v: %w", addr, err)
	}
	m := answer[0]
	if m.Type == unix.RTN_UNREACHABLE && m.DstLength == 0 {
		return netip.Prefix{}, 0, false, nil // the kernel's own end of the IPv6 table
	}
	to, is := netip.AddrFromSlice(m.Attributes.Dst)
	if !is { // a default route has none
		to = netip.IPv4Unspecified()
		if addr.Is6() {
			to = netip.IPv6Unspecified()
		}
	}
	return netip.PrefixFrom(to.Unmap(), int(m.DstLength)), m.Attributes.OutIface, true, nil
}

// hasUnreachableRoute reports whether a route that is not a default one refuses packets to an
// address: the kernel's answer does not tell which it was.
func hasUnreachableRoute(addr netip.Addr) (is bool, err error) {
	var all []rtnetlink.RouteMessage
	err = rtnl.Do(func(c *rtnetlink.Conn) (err error) {
		all, err = c.Route.List()
		return err
	})
	if err != nil {
		return false, fmt.Errorf("list the routes: %w", err)
	}
	return slices.ContainsFunc(all, func(m rtnetlink.RouteMessage) bool {
		to, known := netip.AddrFromSlice(m.Attributes.Dst)
		return known && m.Type == unix.RTN_UNREACHABLE && m.DstLength > 0 && netip.PrefixFrom(to, int(m.DstLength)).Contains(addr)
	}), nil
}
