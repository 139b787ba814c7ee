// SPDX-License-Identifier: Apache-2.0

package diagnose

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

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/address"
)

// neighboursTimeout bounds the question who answers for an address.
const neighboursTimeout = 3 * time.Second

// holders are the hosts that have a VIP.
type holders struct {
	here   bool
	link   string   // that has it here, or that leads to it
	down   bool     // that link
	others []string // the hardware addresses of those who answer for it
	kin    kinship  // of the others, where they are several
	known  bool     // the others
	why    string   // they were not
}

// nobody reports whether no host has it.
func (x holders) nobody() bool { return x.known && !x.here && len(x.others) == 0 }

// twice reports whether more than one has.
func (x holders) twice() bool {
	return x.here && len(x.others) > 0 || len(x.others) > 1 && x.kin == strangers
}

// doubtful reports whether more than one may have it.
func (x holders) doubtful() bool { return !x.here && len(x.others) > 1 && x.kin == unknownKin }

func (x holders) troubled() bool { return x.down || x.nobody() || x.twice() }

// movingTime is how long a VIP that moves may be on no host, or on two, for those who
// look just then.
const movingTime = 1500 * time.Millisecond

// findHolders finds out who has a VIP. It looks a second time before it says that
// something is wrong.
func (h *host) findHolders(ctx context.Context, vip netip.Addr) holders {
	x := h.lookForHolders(ctx, vip, h.addresses)
	if !x.nobody() && !x.twice() && !x.doubtful() {
		return x
	}
	wait := time.NewTimer(movingTime)
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
	w, err := h.wayTo(vip, own)
	if err != nil {
		return holders{why: err.Error()}
	}
	x := holders{here: w.here, link: w.link.Name}
	switch {
	case w.via.IsValid():
		x.why = fmt.Sprintf("it is on no network of this host: the way goes through %v", w.via)
		return x
	case w.link.Flags&net.FlagUp == 0 || w.link.Flags&net.FlagRunning == 0:
		x.down = x.here // else this host is who is cut off, and that says nothing of the VIP
		x.why = w.link.Name + " is down"
		return x
	}
	n, err := h.around(w, vip, own)
	if err != nil {
		x.why = err.Error()
		return x
	}
	ctx, cancel := context.WithTimeout(ctx, neighboursTimeout)
	defer cancel()
	x.others, err = n.holdersOf(ctx, vip, w.source)
	if err == nil && !x.here && len(x.others) > 1 {
		x.kin, err = n.tell(ctx, x.others, vip, h.isVIP)
	}
	switch {
	case errors.Is(err, unix.EPERM):
		x.why = "to ask who answers for it takes root"
	case err != nil:
		x.why = err.Error()
	default:
		x.known = true
	}
	return x
}

// checkHolders looks whether each VIP is on one host that can be reached.
func checkHolders(ctx context.Context, h *host) Result {
	if len(h.vips.API) == 0 {
		return skipped("no VIPs are known")
	}
	var findings []findings.Finding
	var well, unknown bundle
	for i, vip := range slices.Concat(h.vips.API, h.vips.Ingress) {
		role := "API"
		if i >= len(h.vips.API) {
			role = "ingress"
			if slices.Contains(h.vips.API, vip) {
				continue
			}
		}
		x, looked := h.seen.holders[vip].wait(ctx)
		f, is := x.judge(vip, role)
		switch {
		case !looked:
			unknown.add(vip, "there was no time to look")
		case is:
			findings = append(findings, f)
		case x.here && x.known:
			well.add(vip, "here")
		case x.known && len(x.others) > 1:
			well.add(vip, "at one host with %s", strings.Join(x.others, " and "))
		case x.known:
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
func (x holders) judge(vip netip.Addr, role string) (findings.Finding, bool) {
	switch {
	case x.down:
		return findings.Find(findings.VIPLinkDown, "vip", vip.String(), "role", role, "link", x.link), true
	case x.twice():
		all := x.others
		if x.here {
			all = append([]string{"this host"}, all...)
		}
		return findings.Find(findings.VIPTwice, "vip", vip.String(), "role", role, "holders", strings.Join(all, ", ")), true
	case x.doubtful():
		return findings.Find(findings.VIPTwoAddresses, "vip", vip.String(), "role", role, "holders", strings.Join(x.others, " and ")), true
	case x.nobody():
		return findings.Find(findings.VIPNobody, "vip", vip.String(), "role", role, "link", x.link), true
	default:
		return findings.Finding{}, false
	}
}
