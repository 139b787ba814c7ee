// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/address"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/route"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober"
)

// neighboursTimeout bounds a neighbour query.
const neighboursTimeout = 3 * time.Second

// Holders are the hosts that have a VIP.
type Holders struct {
	Local       bool
	Shared      bool       // several hosts have it at once, because BGP announces it
	DADFailed   bool       // this host has it and does not use it
	Unannounced uint32     // the routing table that has no route to it; 0: it has one, or it is not known
	Gateway     netip.Addr // the router towards it; invalid if it is on this host or its networks
	Link        string     // the link with the VIP, or towards it
	LinkDown    bool       // that link is down
	OtherMACs   []string   // hardware addresses of other hosts that answer for it
	ambiguous   bool       // several of these may belong to one host
	OthersKnown bool
	Reason      string // why the others are unknown
}

// Unassigned reports whether no host has the VIP.
func (x Holders) Unassigned() bool { return x.OthersKnown && !x.Local && len(x.OtherMACs) == 0 }

// Duplicate reports whether more than one host has the VIP.
func (x Holders) Duplicate() bool {
	return !x.Shared && (x.Local && len(x.OtherMACs) > 0 || len(x.OtherMACs) > 1 && !x.ambiguous)
}

// Faulty reports whether no host serves the VIP, or several do.
func (x Holders) Faulty() bool { return x.LinkDown || x.Unassigned() || x.Duplicate() }

// failoverTime is the time during which a moving VIP may be on no host, or on two.
const failoverTime = 1500 * time.Millisecond

// Finder finds the holders of VIPs.
type Finder struct {
	Prober        *prober.Client
	Host          Host
	ReadAddresses func() ([]address.Address, error) // reads the addresses of this host
}

// Find finds the hosts that have a VIP. It checks twice before it reports a fault.
func (f Finder) Find(ctx context.Context, vip netip.Addr) Holders {
	x := f.query(ctx, vip)
	if !x.Unassigned() && !x.Duplicate() && x.Unannounced == 0 {
		return x
	}
	wait := time.NewTimer(failoverTime)
	defer wait.Stop()
	select {
	case <-ctx.Done():
		return x
	case <-wait.C:
	}
	if now, err := f.ReadAddresses(); err == nil {
		f.Host.Addresses = now
	}
	return f.query(ctx, vip)
}

func (f Finder) query(ctx context.Context, vip netip.Addr) Holders {
	w, err := f.Host.PathTo(vip)
	x := Holders{Local: w.Local, Gateway: w.Gateway, Shared: f.Host.VIPs.BGP}
	if err == nil {
		x.Link = w.Link.Name
	}
	if x.Shared {
		x.queryShared(f.Host, vip)
	}
	switch {
	case err != nil:
		x.Reason = err.Error()
		return x
	case x.Shared && (w.Local || w.Gateway.IsValid()) && w.Link.Flags&net.FlagUp != 0 && w.Link.Flags&net.FlagRunning != 0:
		x.Reason = "BGP announces it from several hosts"
		return x
	case w.Gateway.IsValid():
		x.Reason = fmt.Sprintf("it is on no network of this host, but behind the router %v", w.Gateway)
		return x
	case w.Link.Flags&net.FlagUp == 0 || w.Link.Flags&net.FlagRunning == 0:
		x.LinkDown = x.Local // otherwise only this host is disconnected, which indicates nothing about the VIP
		x.Reason = w.Link.Name + " is down"
		return x
	}
	n, err := newNeighbourProbe(f.Prober, w, vip, f.Host)
	if err != nil {
		x.Reason = err.Error()
		return x
	}
	ctx, cancel := context.WithTimeout(ctx, neighboursTimeout)
	defer cancel()
	x.OtherMACs, err = n.vipMACs(ctx, vip, w.Source)
	// With the kernel's default (arp_ignore=0), a host with two NICs in one network answers from
	// both for any of its addresses. For IPv6, only the link with the address answers.
	x.ambiguous = !x.Local && vip.Is4()
	switch {
	case errors.Is(err, unix.EPERM):
		x.Reason = "only root can query which host answers for it"
	case err != nil:
		x.Reason = err.Error()
	default:
		x.OthersKnown = true
	}
	return x
}

// queryShared reads what matters on this host for a VIP that BGP announces.
func (x *Holders) queryShared(h Host, vip netip.Addr) {
	i := slices.IndexFunc(h.Addresses, func(a address.Address) bool { return a.IP == vip && a.DADFailed })
	if i >= 0 {
		x.DADFailed = true
		if link, err := net.InterfaceByIndex(int(h.Addresses[i].Link)); err == nil {
			x.Link = link.Name
		}
	}
	if table := h.VIPs.Tables[vip]; x.Local && table != 0 {
		if announced, err := route.InTable(table, vip); err == nil && !announced {
			x.Unannounced = table
		}
	}
}

// Finding returns the finding about a VIP, if there is one.
func (x Holders) Finding(vip netip.Addr, role string) (findings.Finding, bool) {
	switch {
	case x.DADFailed:
		return findings.New(findings.VIPDADFailed, findings.Values{"vip": vip.String(), "role": role, "link": x.Link}), true
	case x.LinkDown:
		return findings.New(findings.VIPLinkDown, findings.Values{"vip": vip.String(), "role": role, "link": x.Link}), true
	case x.Duplicate():
		all := x.OtherMACs
		if x.Local {
			all = append([]string{"this host"}, all...)
		}
		return findings.New(findings.VIPDuplicate, findings.Values{"vip": vip.String(), "role": role, "holders": strings.Join(all, ", ")}), true
	case x.Unannounced != 0:
		return findings.New(findings.VIPNotAnnounced, findings.Values{"vip": vip.String(), "role": role, "table": strconv.FormatUint(uint64(x.Unannounced), 10)}), true
	case x.Unassigned():
		return findings.New(findings.VIPUnassigned, findings.Values{"vip": vip.String(), "role": role, "link": x.Link}), true
	default:
		return findings.Finding{}, false
	}
}
