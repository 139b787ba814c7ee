// SPDX-License-Identifier: Apache-2.0

package vips

import (
	"net/netip"
	"slices"

	"github.com/http01-proxyd/http01-proxyd/pkg/host/keepalived"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/ownership"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// VIPs are the VIPs of this cluster, and those that this host holds.
type VIPs struct {
	keepalived.VIPs
	ownership.Decision

	StaticPod bool                  // they are from keepalived's static pod
	BGP       bool                  // kube-vip manages them, so that several hosts hold them at once
	Tables    map[netip.Addr]uint32 // the routing table from which BGP announces a VIP, if it is known

	Err        error        // why no VIPs are known
	LastGood   bool         // they are the last good ones of the service, despite Err
	Internal   []netip.Addr // configured VIPs that are internal addresses of MicroShift's API server and not redirected
	MicroShift bool         // MicroShift's configuration decides, because there is neither keepalived nor a configured VIP
}

// Unusable reports whether there are no VIPs that the service could serve.
func (v VIPs) Unusable() bool { return v.Err != nil && !v.LastGood }

// Served are the API VIPs that http01-proxyd must serve.
func (v VIPs) Served() []netip.Addr {
	switch {
	case v.Unusable():
		return nil
	case v.MicroShift:
		return slices.Concat(v.Held, v.Standby)
	default:
		return slices.DeleteFunc(slices.Clone(v.API), func(vip netip.Addr) bool { return slices.Contains(v.Ingress, vip) })
	}
}

// All are the API and ingress VIPs, once each.
func (v VIPs) All() []netip.Addr {
	all := slices.Clone(v.API)
	for _, vip := range v.Ingress {
		if !slices.Contains(all, vip) {
			all = append(all, vip)
		}
	}
	return all
}

// Contains reports whether an address is a VIP.
func (v VIPs) Contains(addr netip.Addr) bool { return slices.Contains(v.All(), addr) }

// Holds reports whether this host holds an API VIP.
func (v VIPs) Holds(vip netip.Addr) bool { return slices.Contains(v.Held, vip) }

// WithLastGood returns the VIPs that a service keeps in use while keepalived.conf is unusable,
// or the detected ones if it keeps none. It reports the fault, and the other checks use these
// VIPs.
func (v VIPs) WithLastGood(reported report.Report) VIPs {
	switch reported.Condition().Reason {
	case report.Serving, report.Standby, report.UpstreamUnreachable, report.ProxyUnavailable, report.PortInUse,
		report.NftablesUnavailable, report.InvalidConfig:
	default:
		return v
	}
	var kept keepalived.VIPs
	for _, vip := range reported.VIPs {
		kept.API = append(kept.API, vip.Address)
	}
	for _, u := range reported.Upstreams {
		if !slices.Contains(kept.Ingress, u.Address.Addr()) {
			kept.Ingress = append(kept.Ingress, u.Address.Addr())
		}
	}
	if len(kept.API) > 0 && len(kept.Ingress) > 0 {
		v.VIPs, v.LastGood = kept, true
	}
	return v
}
