// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
)

// maxSubnets limits the host's subnets in a list.
const maxSubnets = 256

// DirectDestinations are the addresses of this host and its cluster that are never
// reached through a proxy.
type DirectDestinations struct {
	VIPs          []netip.Addr   // of the API, and those of the ingress that keepalived manages
	Subnets       []netip.Prefix // of the host
	ClusterDomain string         // the domain after "api." and "api-int."; empty if unknown
}

// NewDirectDestinations returns the destinations of a host with these VIPs and subnets.
// An ingress address of the configuration can be anywhere. One of keepalived is in the
// network of the cluster.
func NewDirectDestinations(c config.VIPs, api, ingress []netip.Addr, subnets []netip.Prefix) DirectDestinations {
	d := DirectDestinations{VIPs: api, Subnets: subnets}
	if !c.Explicit() {
		d.VIPs = slices.Concat(api, ingress)
	}
	return d
}

// NoProxy returns the automatic part of the no-proxy list. OpenShift adds the same
// entries (cluster-network-operator, pkg/util/proxyconfig/no_proxy.go). The API's name
// is not included: its challenges come from outside, so self checks must use the
// administrator's settings.
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

// isHostSubnet excludes prefixes that do not describe a subnet of the host: a prefix of
// length 0 matches everything, and a single address is not a subnet.
func isHostSubnet(p netip.Prefix) bool {
	return p.IsValid() && p.Bits() > 0 && !p.IsSingleIP() && !p.Addr().IsLoopback() && !p.Addr().IsLinkLocalUnicast()
}

// EffectiveNoProxy returns the whole no-proxy list in force.
func (s ProxySettings) EffectiveNoProxy(automatic []string) string {
	all := slices.Clone(automatic)
	for entry := range strings.SplitSeq(s.NoProxy, ",") {
		if entry = strings.TrimSpace(entry); entry != "" && !slices.Contains(all, entry) {
			all = append(all, entry)
		}
	}
	return strings.Join(all, ",")
}

// ProxyForIngress returns the proxy for an ingress address, or nil. The address
// decides, not the requested name: the name is that of the API and resolves to this
// host.
func (s ProxySettings) ProxyForIngress(ingress netip.AddrPort, secure bool, automatic []string) *url.URL {
	target := &url.URL{Scheme: "http", Host: ingress.String()}
	if secure {
		target.Scheme = "https"
	}
	return s.ProxyFor(target, automatic)
}
