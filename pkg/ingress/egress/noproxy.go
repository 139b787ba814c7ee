// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// maxSubnets bounds the host's own subnets in a list.
const maxSubnets = 256

// DirectDestinations is what of this host and its cluster is never reached through a proxy.
type DirectDestinations struct {
	VIPs          []netip.Addr   // of the API, and those of the ingress that keepalived keeps
	Subnets       []netip.Prefix // the host's own
	ClusterDomain string         // the domain after "api." and "api-int."; empty: not known
}

// NoProxy is the automatic part of the no-proxy list. OpenShift's has these too
// (cluster-network-operator, pkg/util/proxyconfig/no_proxy.go). The API's name is
// not in it: its challenges come from outside, and self checks have to leave as
// the admin says.
func (a DirectDestinations) NoProxy() []string {
	list := []string{"localhost", "127.0.0.0/8", "::1", ".svc", ".cluster.local"}
	if a.ClusterDomain != "" {
		list = append(list, "api-int."+a.ClusterDomain)
	}
	var found []string
	for _, vip := range a.VIPs {
		found = append(found, vip.String())
	}
	for _, subnet := range a.Subnets[:min(len(a.Subnets), maxSubnets)] {
		if isHostSubnet(subnet) {
			found = append(found, subnet.Masked().String())
		}
	}
	slices.Sort(found)
	return append(list, slices.Compact(found)...)
}

// isHostSubnet leaves out what says nothing of where the host is: a prefix of no length
// is everything, and that of an address alone is no subnet.
func isHostSubnet(p netip.Prefix) bool {
	return p.IsValid() && p.Bits() > 0 && !p.IsSingleIP() && !p.Addr().IsLoopback() && !p.Addr().IsLinkLocalUnicast()
}

// EffectiveNoProxy is the whole list as it is in force.
func (s ProxySettings) EffectiveNoProxy(automatic []string) string {
	all := slices.Clone(automatic)
	for entry := range strings.SplitSeq(s.NoProxy, ",") {
		if entry = strings.TrimSpace(entry); entry != "" && !slices.Contains(all, entry) {
			all = append(all, entry)
		}
	}
	return strings.Join(all, ",")
}

// ProxyForIngress returns through which proxy an ingress address is reached, or nil.
// The address decides and not the name that is asked for: the name is that of the
// API, and leads to this host.
func (s ProxySettings) ProxyForIngress(ingress netip.AddrPort, secure bool, automatic []string) *url.URL {
	target := &url.URL{Scheme: "http", Host: ingress.String()}
	if secure {
		target.Scheme = "https"
	}
	return s.ProxyFor(target, automatic)
}
