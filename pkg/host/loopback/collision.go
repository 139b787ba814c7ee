// SPDX-License-Identifier: Apache-2.0

package loopback

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/pkg/host/address"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/microshift"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/route"
)

// Collision is an address that somebody else has.
type Collision struct {
	Address netip.Addr
	Reason  string
}

func (c *Collision) Error() string {
	return fmt.Sprintf("%v, the internal address of MicroShift's API server, is not put on lo: %s: give another network.serviceNetwork or "+
		"apiServer.advertiseAddress in MicroShift's configuration, or take that away", c.Address, c.Reason)
}

// FindLink tells on which link an internal address is, where MicroShift has it; "" when
// it is nowhere. The error is a [Collision] when somebody else has it.
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
		elsewhere = &Collision{addr, fmt.Sprintf("it is on %s, as %v/%d", name, a.IP, a.Bits)}
	}
	if elsewhere != nil {
		return "", elsewhere
	}
	return "", checkNoRoute(addr)
}

// checkNoRoute refuses an address to which a route leads, but for a default one: who has
// that network would not be reached any more.
func checkNoRoute(addr netip.Addr) error {
	network, link, found, err := route.Match(addr)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.EHOSTUNREACH) {
		return &Collision{addr, "a blackhole, prohibit or unreachable route leads to it"}
	}
	if err != nil || !found || network.Bits() == 0 {
		return err
	}
	return &Collision{addr, fmt.Sprintf("the route %v by %s leads to it", network, linkName(link))}
}

// linkName is for messages, so one that cannot be had is a number.
func linkName(index uint32) string {
	if links, err := address.Links(); err == nil {
		if i := slices.IndexFunc(links, func(l address.Link) bool { return l.Index == index }); i >= 0 {
			return links[i].Name
		}
	}
	return fmt.Sprintf("link %d", index)
}
