// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"net/netip"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
)

// ProxyProtocol is the version of HAProxy's PROXY protocol (doc/proxy-protocol.txt of
// HAProxy) whose header each connection to the ingress begins with; 0: none.
type ProxyProtocol int

// The versions.
const (
	ProxyProtocolOff ProxyProtocol = iota
	ProxyProtocolV1
	ProxyProtocolV2
)

// Upstream holds the addresses of the ingress and how requests are sent there.
type Upstream struct {
	Addresses       []netip.Addr  `json:"addresses"`                 // in order of preference within a family
	Port            uint16        `json:"port"`                      // for HTTP
	HTTPSPort       uint16        `json:"httpsPort"`                 // for TLS
	TLS             bool          `json:"tls,omitempty"`             // TLS from the start
	FollowRedirects bool          `json:"followRedirects,omitempty"` // to the same URL by https
	ProxyProtocol   ProxyProtocol `json:"proxyProtocol,omitempty"`
	// accepted in a router's certificate in place of the request's host
	VerifyNames    []string      `json:"verifyNames,omitempty"`
	ConnectTimeout time.Duration `json:"connectTimeout"` // of each step of opening a connection
	Timeout        time.Duration `json:"timeout"`        // of a whole challenge
}

// FromConfig returns the settings for the ingress at these addresses.
func FromConfig(u config.Upstream, addresses []netip.Addr) Upstream {
	return Upstream{
		Addresses:       addresses,
		Port:            u.Port,
		HTTPSPort:       u.HTTPSPort,
		TLS:             u.Scheme == config.SchemeHTTPS,
		FollowRedirects: u.FollowRedirects,
		ProxyProtocol:   proxyProtocolVersion(u.ProxyProtocol),
		VerifyNames:     u.VerifyNames,
		ConnectTimeout:  u.ConnectTimeout,
		Timeout:         u.Timeout,
	}
}

func proxyProtocolVersion(p config.ProxyProtocol) ProxyProtocol {
	switch p {
	case config.ProxyProtocolV1:
		return ProxyProtocolV1
	case config.ProxyProtocolV2:
		return ProxyProtocolV2
	default:
		return ProxyProtocolOff
	}
}

// CauseContext returns what the sender of these settings knows about a failure. Nil
// values are unknown.
func CauseContext(u *Upstream, cas *CABundle, e *Egress) cause.Context {
	known := cause.Context{}
	if u != nil {
		known.VerifyNames = u.VerifyNames
	}
	if cas != nil {
		known.TrustedCAs = cas.Description
	}
	if e == nil || len(e.Routes) == 0 {
		return known
	}
	known.ProxyCAs = e.ProxyCAs.Description
	if len(e.AdditionalCAs.Roots) > 0 {
		known.AdditionalCAs = e.AdditionalCAs.Description
	}
	known.EgressProxies = make(map[netip.AddrPort]cause.EgressProxy, len(e.Routes))
	for _, r := range e.Routes {
		p := cause.EgressProxy{Name: r.Proxy.Name}
		if len(r.Proxy.Addrs) > 0 {
			p.Port = r.Proxy.Addrs[0].Port()
		}
		known.EgressProxies[netip.AddrPortFrom(r.Ingress.Addr().Unmap(), r.Ingress.Port())] = p
	}
	return known
}
