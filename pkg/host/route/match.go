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

// Match returns the destination network and the link of the route to an address. found is
// false without a route and with an unreachable default route. Any other unreachable route is
// an EHOSTUNREACH error.
func Match(addr netip.Addr) (network netip.Prefix, link uint32, found bool, err error) {
	answer, err := queryRoute(addr, unix.RTM_F_FIB_MATCH)
	if errors.Is(err, unix.ENETUNREACH) {
		return netip.Prefix{}, 0, false, nil
	}
	if errors.Is(err, unix.EHOSTUNREACH) {
		rejected, listErr := hasUnreachableRoute(addr)
		if !rejected && listErr == nil {
			return netip.Prefix{}, 0, false, nil
		}
		err = errors.Join(err, listErr)
	}
	if err == nil && len(answer) == 0 {
		err = errors.New("the kernel returned no route")
	}
	if err != nil {
		return netip.Prefix{}, 0, false, fmt.Errorf("look up the route to %v: %w", addr, err)
	}
	m := answer[0]
	if m.Type == unix.RTN_UNREACHABLE && m.DstLength == 0 {
		return netip.Prefix{}, 0, false, nil // the kernel's last entry of the IPv6 table
	}
	to, ok := netip.AddrFromSlice(m.Attributes.Dst)
	if !ok { // a default route has no destination
		to = netip.IPv4Unspecified()
		if addr.Is6() {
			to = netip.IPv6Unspecified()
		}
	}
	return netip.PrefixFrom(to.Unmap(), int(m.DstLength)), m.Attributes.OutIface, true, nil
}

// hasUnreachableRoute reports whether an unreachable route other than a default route covers
// an address. The kernel's reply is the same for both.
func hasUnreachableRoute(addr netip.Addr) (found bool, err error) {
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
