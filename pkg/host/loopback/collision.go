// SPDX-License-Identifier: Apache-2.0

package loopback

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/http01-proxyd/http01-proxyd/pkg/host/address"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/microshift"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/route"
)

// Collision is an internal address that is already in use.
type Collision struct {
	Address netip.Addr
	Reason  string
}

func (c *Collision) Error() string {
	return fmt.Sprintf("cannot add %v, the internal address of MicroShift's API server, to lo: %s: configure another "+
		"network.serviceNetwork or apiServer.advertiseAddress for MicroShift, or remove the conflict", c.Address, c.Reason)
}

// FindLink returns the link with an internal address of MicroShift, or "" if it is on no link.
// The error is a [Collision] if the address is in use elsewhere.
func FindLink(addr netip.Addr) (link string, err error) {
	all, err := address.List()
	if err != nil {
		return "", err
	}
	return findLink(addr, all)
}

func findLink(addr netip.Addr, all []address.Address) (link string, err error) {
	var elsewhere error
	for _, a := range all {
		if a.IP != addr {
			continue
		}
		name := linkName(a.Link)
		if a.Bits == addr.BitLen() && microshift.IsInternalLink(name) {
			return name, nil
		}
		elsewhere = &Collision{addr, fmt.Sprintf("%s has %v/%d", name, a.IP, a.Bits)}
	}
	if elsewhere != nil {
		return "", elsewhere
	}
	return "", checkNoRoute(addr)
}

// checkNoRoute returns a Collision if a route other than a default route leads to an address:
// the destination of that route would become unreachable.
func checkNoRoute(addr netip.Addr) error {
	network, link, found, err := route.Match(addr)
	if err != nil || !found || network.Bits() == 0 {
		return err
	}
	return &Collision{addr, fmt.Sprintf("the route %v via %s covers it", network, linkName(link))}
}

func linkName(index uint32) string {
	if links, err := address.Links(); err == nil {
		if i := slices.IndexFunc(links, func(l address.Link) bool { return l.Index == index }); i >= 0 {
			return links[i].Name
		}
	}
	return fmt.Sprintf("link %d", index)
}
