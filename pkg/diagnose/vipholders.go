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

// neighboursTimeout bounds a neighbour query.
const neighboursTimeout = 3 * time.Second

// vipHolders are the hosts that have a VIP.
type vipHolders struct {
	local       bool
	link        string      // the link with the VIP, or towards it
	linkDown    bool        // that link is down
	otherMACs   []string    // hardware addresses of other hosts that answer for it
	relation    macRelation // of the others, if there are several
	othersKnown bool        // the others
	reason      string      // why they are unknown
}

// unassigned reports whether no host has the VIP.
func (x vipHolders) unassigned() bool { return x.othersKnown && !x.local && len(x.otherMACs) == 0 }

// duplicate reports whether more than one host has the VIP.
func (x vipHolders) duplicate() bool {
	return x.local && len(x.otherMACs) > 0 || len(x.otherMACs) > 1 && x.relation == differentHosts
}

// ambiguous reports whether more than one host may have the VIP.
func (x vipHolders) ambiguous() bool {
	return !x.local && len(x.otherMACs) > 1 && x.relation == unknownRelation
}

func (x vipHolders) faulty() bool { return x.linkDown || x.unassigned() || x.duplicate() }

// failoverTime is the time during which a moving VIP may be on no host, or on two.
const failoverTime = 1500 * time.Millisecond

// findVIPHolders finds the hosts that have a VIP. It checks twice before it reports a
// fault.
func (h *host) findVIPHolders(ctx context.Context, vip netip.Addr) vipHolders {
	x := h.queryVIPHolders(ctx, vip, h.addresses)
	if !x.unassigned() && !x.duplicate() && !x.ambiguous() {
		return x
	}
	wait := time.NewTimer(failoverTime)
	defer wait.Stop()
	select {
	case <-ctx.Done():
		return x
	case <-wait.C:
	}
	own, err := listAddresses()
	if err != nil {
		own = h.addresses
	}
	return h.queryVIPHolders(ctx, vip, own)
}

func (h *host) queryVIPHolders(ctx context.Context, vip netip.Addr, own []address.Address) vipHolders {
	w, err := h.pathTo(vip, own)
	if err != nil {
		return vipHolders{reason: err.Error()}
	}
	x := vipHolders{local: w.local, link: w.link.Name}
	switch {
	case w.gateway.IsValid():
		x.reason = fmt.Sprintf("it is on no network of this host, but behind the router %v", w.gateway)
		return x
	case w.link.Flags&net.FlagUp == 0 || w.link.Flags&net.FlagRunning == 0:
		x.linkDown = x.local // otherwise only this host is disconnected, which indicates nothing about the VIP
		x.reason = w.link.Name + " is down"
		return x
	}
	n, err := h.newNeighbourProbe(w, vip, own)
	if err != nil {
		x.reason = err.Error()
		return x
	}
	ctx, cancel := context.WithTimeout(ctx, neighboursTimeout)
	defer cancel()
	x.otherMACs, err = n.vipMACs(ctx, vip, w.source)
	if err == nil && !x.local && len(x.otherMACs) > 1 {
		x.relation, err = n.relateMACs(ctx, x.otherMACs, vip, h.isVIP)
	}
	switch {
	case errors.Is(err, unix.EPERM):
		x.reason = "only root can query which host answers for it"
	case err != nil:
		x.reason = err.Error()
	default:
		x.othersKnown = true
	}
	return x
}

// checkVIPHolders checks whether each VIP is on one reachable host.
func checkVIPHolders(ctx context.Context, h *host) Result {
	if len(h.vips.API) == 0 {
		return skippedResult("no VIPs are known")
	}
	var findings []findings.Finding
	var texts, unknown groupedTexts
	for i, vip := range slices.Concat(h.vips.API, h.vips.Ingress) {
		role := "API"
		if i >= len(h.vips.API) {
			role = "ingress"
			if slices.Contains(h.vips.API, vip) {
				continue
			}
		}
		x, known := h.observed.vipHolders[vip].await(ctx)
		f, ok := x.judge(vip, role)
		switch {
		case !known:
			unknown.add(vip, "no time left for the check")
		case ok:
			findings = append(findings, f)
		case x.local && x.othersKnown:
			texts.add(vip, "on this host")
		case x.othersKnown && len(x.otherMACs) > 1:
			texts.add(vip, "on one host with %s", strings.Join(x.otherMACs, " and "))
		case x.othersKnown:
			texts.add(vip, "on the host with %s", x.otherMACs[0])
		case x.local:
			texts.add(vip, "on this host (other hosts unknown: %s)", x.reason)
		default:
			unknown.add(vip, "%s", x.reason)
		}
	}
	if len(findings) == 0 && texts.empty() {
		return skippedResult("%v", &unknown)
	}
	return findingsResult(findings, "%v", &texts).withNotChecked(unknown.String())
}

// judge returns the finding about a VIP, if there is one.
func (x vipHolders) judge(vip netip.Addr, role string) (findings.Finding, bool) {
	switch {
	case x.linkDown:
		return findings.New(findings.VIPLinkDown, findings.Values{"vip": vip.String(), "role": role, "link": x.link}), true
	case x.duplicate():
		all := x.otherMACs
		if x.local {
			all = append([]string{"this host"}, all...)
		}
		return findings.New(findings.VIPDuplicate, findings.Values{"vip": vip.String(), "role": role, "holders": strings.Join(all, ", ")}), true
	case x.ambiguous():
		return findings.New(findings.VIPTwoMACs, findings.Values{"vip": vip.String(), "role": role, "holders": strings.Join(x.otherMACs, " and ")}), true
	case x.unassigned():
		return findings.New(findings.VIPUnassigned, findings.Values{"vip": vip.String(), "role": role, "link": x.link}), true
	default:
		return findings.Finding{}, false
	}
}
