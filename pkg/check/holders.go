// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/pkg/address"
	"github.com/http01-proxyd/http01-proxyd/pkg/catalogue"
	"github.com/http01-proxyd/http01-proxyd/pkg/probe"
)

// neighboursTimeout bounds the question who answers for an address.
const neighboursTimeout = 3 * time.Second

// holders are the hosts that have a VIP.
type holders struct {
	here   bool
	link   string   // that has it here, or that leads to it
	down   bool     // that link
	others []string // the hardware addresses of those who answer for it
	asked  bool     // the others
	why    string   // they were not
}

// nobody reports whether no host has it.
func (x holders) nobody() bool { return x.asked && !x.here && len(x.others) == 0 }

// twice reports whether more than one has.
func (x holders) twice() bool { return len(x.others) > 1 || x.here && len(x.others) > 0 }

func (x holders) troubled() bool { return x.down || x.nobody() || x.twice() }

// moving is how long a VIP that moves may be on no host, or on two, for those who
// look just then.
const moving = 1500 * time.Millisecond

// findHolders finds out who has a VIP. It looks a second time before it says that
// something is wrong.
func (h *host) findHolders(ctx context.Context, vip netip.Addr) holders {
	x := h.lookForHolders(ctx, vip, h.addresses)
	if !x.nobody() && !x.twice() {
		return x
	}
	wait := time.NewTimer(moving)
	defer wait.Stop()
	select {
	case <-ctx.Done():
		return x
	case <-wait.C:
	}
	own, err := addresses()
	if err != nil {
		own = h.addresses
	}
	return h.lookForHolders(ctx, vip, own)
}

func (h *host) lookForHolders(ctx context.Context, vip netip.Addr, own []address.Address) holders {
	x := holders{}
	link, source, err := nearLink(vip, own, &x)
	if err != nil {
		x.why = err.Error()
		return x
	}
	x.link = link.Name
	x.down = link.Flags&net.FlagUp == 0 || link.Flags&net.FlagRunning == 0
	if x.down {
		x.down = x.here // else this host is who is cut off, and that says nothing of the VIP
		x.why = link.Name + " is down"
		return x
	}
	ctx, cancel := context.WithTimeout(ctx, neighboursTimeout)
	defer cancel()
	found, err := h.network.Neighbours(ctx, probe.NeighboursQuestion{Addr: vip, Link: link.Index, Own: link.HardwareAddr, Source: source})
	switch {
	case errors.Is(err, unix.EPERM):
		x.why = "to ask who answers for it takes root"
	case err != nil:
		x.why = err.Error()
	default:
		x.asked, x.others = true, found.Hardware
	}
	return x
}

// nearLink finds the link that has a VIP, or on whose network it is, and an own
// address there that is no VIP.
func nearLink(vip netip.Addr, own []address.Address, x *holders) (link *net.Interface, source netip.Addr, err error) {
	if i := slices.IndexFunc(own, func(a address.Address) bool { return a.IP == vip && !a.DADFailed }); i >= 0 {
		x.here = true
		if link, err = net.InterfaceByIndex(int(own[i].Link)); err != nil {
			return nil, source, fmt.Errorf("look at link %d: %w", own[i].Link, err)
		}
	}
	links, err := net.Interfaces()
	if err != nil {
		return nil, source, fmt.Errorf("list the links: %w", err)
	}
	for i := range links {
		near, is := ownAddress(&links[i], vip)
		if is && (link == nil || link.Index == links[i].Index) {
			return &links[i], near, nil
		}
	}
	if link == nil {
		return nil, source, errors.New("it is on no network of this host")
	}
	if vip.Is6() {
		// Not from the VIP itself: others would learn that it is here.
		if source, known := linkLocal(link); known {
			return link, source, nil
		}
		return nil, source, fmt.Errorf("%s has no other address to ask from", link.Name)
	}
	return link, source, nil
}

// linkLocal is a link's address that is valid on it alone.
func linkLocal(link *net.Interface) (netip.Addr, bool) {
	list, err := link.Addrs()
	if err != nil {
		return netip.Addr{}, false
	}
	for _, each := range list {
		if prefix, err := netip.ParsePrefix(each.String()); err == nil && prefix.Addr().Is6() && prefix.Addr().IsLinkLocalUnicast() {
			return prefix.Addr(), true
		}
	}
	return netip.Addr{}, false
}

// ownAddress is a link's address in whose network another one is.
func ownAddress(link *net.Interface, other netip.Addr) (netip.Addr, bool) {
	list, err := link.Addrs()
	if err != nil {
		return netip.Addr{}, false
	}
	for _, each := range list {
		prefix, err := netip.ParsePrefix(each.String())
		if err == nil && !prefix.IsSingleIP() && prefix.Addr() != other && prefix.Contains(other) {
			return prefix.Addr(), true
		}
	}
	return netip.Addr{}, false
}

// checkHolders looks whether each VIP is on one host that can be reached.
func checkHolders(ctx context.Context, h *host) Result {
	if len(h.vips.API) == 0 {
		return skipped("no VIPs are known")
	}
	var findings []catalogue.Finding
	var well, unknown bundle
	for i, vip := range slices.Concat(h.vips.API, h.vips.Ingress) {
		role := "API"
		if i >= len(h.vips.API) {
			role = "ingress"
			if slices.Contains(h.vips.API, vip) {
				continue
			}
		}
		x, known := h.seen.holders[vip].wait(ctx)
		f, is := x.judge(vip, role)
		switch {
		case !known:
			unknown.add(vip, "there was no time to look")
		case is:
			findings = append(findings, f)
		case x.here && x.asked:
			well.add(vip, "here")
		case x.asked:
			well.add(vip, "at %s", x.others[0])
		case x.here:
			well.add(vip, "here (whether elsewhere too: %s)", x.why)
		default:
			unknown.add(vip, "%s", x.why)
		}
	}
	if len(findings) == 0 && well.empty() {
		return skipped("%v", &unknown)
	}
	return found(findings, "%v", &well).but(unknown.String())
}

// judge is the finding about a VIP, if there is one.
func (x holders) judge(vip netip.Addr, role string) (catalogue.Finding, bool) {
	switch {
	case x.down:
		return catalogue.Find(catalogue.VIPLinkDown, "vip", vip.String(), "role", role, "link", x.link), true
	case x.twice():
		all := x.others
		if x.here {
			all = append([]string{"this host"}, all...)
		}
		return catalogue.Find(catalogue.VIPTwice, "vip", vip.String(), "role", role, "holders", strings.Join(all, ", ")), true
	case x.nobody():
		return catalogue.Find(catalogue.VIPNobody, "vip", vip.String(), "role", role, "link", x.link), true
	default:
		return catalogue.Finding{}, false
	}
}
