// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/address"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/reqhead"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// isDoor reports whether a page is what the front door says to whatever is no
// challenge.
func isDoor(f prober.FetchResult) bool {
	return f.Status == 400 && string(bytes.TrimSpace(f.Body)) == reqhead.OnlyChallenges
}

// passedOn reports whether an answer came through a front door, which puts itself
// into Via; not so those that it gives itself.
func passedOn(f prober.FetchResult) bool { return strings.Contains(f.Via, "http01-proxyd") }

// doorSeen is what port 80 of an API VIP says to this host.
type doorSeen struct {
	vip  netip.Addr
	page prober.FetchResult
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
	return reason == report.Serving || reason == report.UpstreamUnreachable
}

// checkSelf looks at the front door as a self check on this host does: through
// the output chains where this host holds the VIP, else over the network.
func checkSelf(ctx context.Context, h *host) Result {
	if len(h.doors()) == 0 {
		return skipped("there is to be no front door on any VIP")
	}
	open, closed := h.askDoors(ctx)
	var findings []findings.Finding
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
	if f, is := h.refusesLater(); is {
		findings = append(findings, f)
	}
	if len(findings) == 0 && len(open) == 0 {
		return skipped("no API VIP could be asked")
	}
	return found(findings, "%v", &texts)
}

// judgeClosed judges a VIP whose port 80 shows no front door.
func (h *host) judgeClosed(d doorSeen, open []doorSeen) (findings.Finding, bool) {
	how := words(d.page)
	switch {
	case h.holds(d.vip) && h.serves():
		if c, is := h.lastClient(d.vip); is {
			return findings.Find(findings.SelfCheckDiffer, "door", d.String(), "how", how,
				"client", c.Client, "status", strconv.Itoa(c.Status), "time", c.Time.Format(time.TimeOnly)), true
		}
		return findings.Find(findings.SelfCheckFails, "door", d.String(), "how", how), true
	case len(open) > 0:
		// One family works: whether CAs take the other is for the names to say.
		return findings.Finding{}, false
	}
	f := findings.Find(findings.DoorClosed, "door", d.String(), "how", how)
	if !h.holds(d.vip) {
		f = f.Elsewhere()
	}
	return f, true
}

// lastClient is the last challenge that came to a VIP lately from another host.
func (h *host) lastClient(vip netip.Addr) (report.RecentChallenge, bool) {
	return h.lately(func(c report.RecentChallenge) bool {
		client, err := netip.ParseAddrPort(c.Client)
		own := slices.ContainsFunc(h.addresses, func(a address.Address) bool { return a.IP == client.Addr() })
		return err == nil && !own && c.VIP == vip.String()
	})
}

// judgeOpen compares what comes through the front door with what the ingress says
// itself; without a token nothing more than the front door is asked for, which
// would count as a challenge.
func (h *host) judgeOpen(ctx context.Context, d doorSeen) ([]findings.Finding, string) {
	if h.refuses() && h.holds(d.vip) {
		return []findings.Finding{h.notAllowed(d.String(), h.Name)}, ""
	}
	text := "the front door, in " + report.Milliseconds(d.page.Total)
	l := h.seen.challenge[d.vip]
	if l == nil {
		return nil, text
	}
	through, known := l.wait(ctx)
	direct, is := h.direct(ctx, d.vip)
	switch {
	case !known || !is || direct.page.Cause != "":
		// Without an answer straight from the ingress there is nothing to compare.
		return nil, text
	case (through.Status == 502 || through.Status == 504) && !passedOn(through):
		// The front door was met, and says why it has no answer.
		return nil, fmt.Sprintf("%s; to the challenge it answered %d by itself: %q", text, through.Status, printableOnly(bytes.TrimSpace(through.Body)))
	case isDoor(through):
		return []findings.Finding{h.notAllowed(d.String(), h.seen.name(ctx))}, ""
	case !same(through, direct.page):
		f := findings.Find(findings.AnswerDiffers, "door", d.String(), "how", words(through),
			"upstream", direct.addr.String(), "straight", words(direct.page))
		if !h.holds(d.vip) {
			f = f.Elsewhere()
		}
		return []findings.Finding{f}, ""
	default:
		return nil, text + ", and answers as the ingress does"
	}
}

// same reports whether two pages say the same. Pages for people may differ each
// time.
func same(a, b prober.FetchResult) bool {
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

// refuses reports whether this host's configuration has its front door answer for
// other names than that of --name.
func (h *host) refuses() bool {
	return h.Name != "" && len(h.config.Hosts) > 0 && !slices.Contains(h.config.Hosts, h.Name)
}

// refusesLater is that on a host without a VIP: nobody is refused there yet.
func (h *host) refusesLater() (findings.Finding, bool) {
	if !h.refuses() || len(h.held.Held) > 0 {
		return findings.Finding{}, false
	}
	f := h.notAllowed("this host, once a VIP is here,", h.Name)
	f.Level = findings.Warning
	return f, true
}

func (h *host) notAllowed(door, name string) findings.Finding {
	return findings.Find(findings.NameNotAllowed, "door", door, "name", name)
}
