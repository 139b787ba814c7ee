// SPDX-License-Identifier: Apache-2.0

package check

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/pkg/catalogue"
	"github.com/http01-proxyd/http01-proxyd/pkg/gate/head"
	"github.com/http01-proxyd/http01-proxyd/pkg/probe"
	"github.com/http01-proxyd/http01-proxyd/pkg/status"
)

// isDoor reports whether a page is what the front door says to whatever is no
// challenge.
func isDoor(f probe.Fetch) bool {
	return f.Status == 400 && string(bytes.TrimSpace(f.Body)) == head.OnlyChallenges
}

// doorSeen is what port 80 of an API VIP says to this host.
type doorSeen struct {
	vip  netip.Addr
	page probe.Fetch
}

func (d doorSeen) String() string { return netip.AddrPortFrom(d.vip, httpPort).String() }

// askDoors waits for what the API VIPs say, but for those that are on no host.
func (h *host) askDoors(ctx context.Context) (open, closed []doorSeen) {
	for _, vip := range h.doors() {
		if h.seen.troubled(ctx, vip) {
			continue
		}
		page, known := h.seen.door[vip].wait(ctx)
		switch {
		case !known:
		case isDoor(page):
			open = append(open, doorSeen{vip, page})
		default:
			closed = append(closed, doorSeen{vip, page})
		}
	}
	return open, closed
}

func (h *host) holds(vip netip.Addr) bool { return slices.Contains(h.held.Held, vip) }

// serves reports whether the service on this host says that it answers.
func (h *host) serves() bool {
	reason, _ := h.state()
	return reason == status.Serving || reason == status.UpstreamUnreachable
}

// checkSelf looks at the front door as a self check on this host does: through
// the output chains where this host holds the VIP, else over the network.
func checkSelf(ctx context.Context, h *host) Result {
	if len(h.doors()) == 0 {
		return skipped("there is to be no front door on any VIP")
	}
	open, closed := h.askDoors(ctx)
	var findings []catalogue.Finding
	var texts bundle
	for _, d := range closed {
		f, is := h.judgeClosed(d, open)
		if is {
			findings = append(findings, f)
			continue
		}
		texts.add(d, "%s", words(d.page))
	}
	for _, d := range open {
		f, text := h.judgeOpen(ctx, d)
		findings = append(findings, f...)
		texts.add(d, "%s", text)
	}
	if len(findings) == 0 && len(open) == 0 {
		return skipped("no API VIP could be asked")
	}
	return found(findings, "%v", &texts)
}

// judgeClosed judges a VIP whose port 80 shows no front door.
func (h *host) judgeClosed(d doorSeen, open []doorSeen) (catalogue.Finding, bool) {
	how := words(d.page)
	switch {
	case h.holds(d.vip) && h.serves():
		return catalogue.Find(catalogue.SelfCheckDiffer, "door", d.String(), "how", how), true
	case len(open) > 0:
		// One family works: whether CAs take the other is for the names to say.
		return catalogue.Finding{}, false
	default:
		return catalogue.Find(catalogue.DoorClosed, "door", d.String(), "how", how), true
	}
}

// judgeOpen compares what comes through the front door with what the ingress says
// itself; without a token nothing more than the front door is asked for, which
// would count as a challenge.
func (h *host) judgeOpen(ctx context.Context, d doorSeen) ([]catalogue.Finding, string) {
	text := "the front door, in " + status.Milliseconds(d.page.Total)
	l := h.seen.challenge[d.vip]
	if l == nil {
		return nil, text
	}
	through, known := l.wait(ctx)
	direct, is := h.direct(ctx, d.vip)
	switch {
	case !known || !is || direct.page.Status == 0:
		return nil, text
	case isDoor(through):
		return []catalogue.Finding{catalogue.Find(catalogue.NameNotAllowed, "door", d.String(), "name", h.seen.name(ctx))}, ""
	case !same(through, direct.page):
		how := fmt.Sprintf("%s; straight from %v: %s", words(through), direct.addr, words(direct.page))
		return []catalogue.Finding{catalogue.Find(catalogue.SelfCheckDiffer, "door", d.String(), "how", how)}, ""
	default:
		return nil, text + ", and answers as the ingress does"
	}
}

// same reports whether two pages say the same. Pages for people may differ each
// time.
func same(a, b probe.Fetch) bool {
	return a.Status == b.Status && (a.Status != 200 || strings.HasPrefix(a.ContentType, "text/html") || bytes.Equal(a.Body, b.Body))
}

// direct is what an ingress VIP says itself, one of the API VIP's family if there
// is one.
func (h *host) direct(ctx context.Context, api netip.Addr) (asked, bool) {
	all := h.askIngress(ctx)
	if len(all) == 0 {
		return asked{}, false
	}
	i := slices.IndexFunc(all, func(a asked) bool { return a.addr.Addr().Is4() == api.Is4() })
	return all[max(i, 0)], true
}
