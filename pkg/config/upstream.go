// SPDX-License-Identifier: Apache-2.0

package config

import (
	"slices"
	"time"

	"go.yaml.in/yaml/v4"
)

// Scheme says what is spoken with the ingress.
type Scheme string

// The schemes.
const (
	SchemeHTTP  Scheme = "http"
	SchemeHTTPS Scheme = "https"
)

// ProxyProtocol is the version of the PROXY protocol that the ingress expects
// (haproxy, doc/proxy-protocol.txt).
type ProxyProtocol string

// The versions.
const (
	ProxyProtocolOff ProxyProtocol = "off"
	ProxyProtocolV1  ProxyProtocol = "v1"
	ProxyProtocolV2  ProxyProtocol = "v2"
)

// Upstream says how the ingress is reached.
type Upstream struct {
	Scheme          Scheme
	Port            uint16 // for http
	HTTPSPort       uint16 // for https, and for what redirects lead to
	ExplicitPorts   ExplicitPorts
	FollowRedirects bool // from http to https of the same host and path
	ProxyProtocol   ProxyProtocol
	TrustedCA       string   // absolute path of a bundle in PEM; where there is none, the host's own trust counts
	VerifyNames     []string // besides the request's host, what the ingress's certificate may be for: canonical, "*." at most in front

	ConnectTimeout time.Duration // one dial
	Timeout        time.Duration // the whole of one challenge, over both families and all redirects
}

// ExplicitPorts tells which of the ports are somebody's wish, whatever they are.
type ExplicitPorts struct{ HTTP, HTTPS bool }

// Equal reports whether both say the same.
func (u Upstream) Equal(other Upstream) bool {
	return u.Scheme == other.Scheme && u.Port == other.Port && u.HTTPSPort == other.HTTPSPort && u.ExplicitPorts == other.ExplicitPorts &&
		u.FollowRedirects == other.FollowRedirects && u.ProxyProtocol == other.ProxyProtocol &&
		u.TrustedCA == other.TrustedCA && slices.Equal(u.VerifyNames, other.VerifyNames) &&
		u.ConnectTimeout == other.ConnectTimeout && u.Timeout == other.Timeout
}

// UsesTLS reports whether anything may be asked by TLS.
func (c Config) UsesTLS() bool {
	return c.Upstream.Scheme == SchemeHTTPS || c.Upstream.FollowRedirects || c.EgressProxy.Upstream != EgressNever
}

// InitialPort is the one that a challenge is asked for at first: where a redirect is
// followed, another may be next.
func (u Upstream) InitialPort() uint16 {
	if u.Scheme == SchemeHTTPS {
		return u.HTTPSPort
	}
	return u.Port
}

func (p *parser) parseUpstream(n *yaml.Node) {
	u := &p.config.Upstream
	p.mapping(
		n, "upstream",
		key{"scheme", oneOf(&p.reader, &u.Scheme, "upstream.scheme", SchemeHTTP, SchemeHTTPS)},
		key{"port", func(n *yaml.Node) {
			u.ExplicitPorts.HTTP = true
			p.port(&u.Port, "upstream.port", 1)(n)
		}},
		key{"httpsPort", func(n *yaml.Node) {
			u.ExplicitPorts.HTTPS = true
			p.port(&u.HTTPSPort, "upstream.httpsPort", 1)(n)
		}},
		key{"followRedirects", p.boolean(&u.FollowRedirects, "upstream.followRedirects")},
		key{"proxyProtocol", func(n *yaml.Node) {
			p.proxyProtocol = n
			oneOf(&p.reader, &u.ProxyProtocol, "upstream.proxyProtocol", ProxyProtocolOff, ProxyProtocolV1, ProxyProtocolV2)(n)
		}},
		key{"trustedCA", p.path(&u.TrustedCA, "upstream.trustedCA")},
		key{"verifyNames", p.certificateNames(&u.VerifyNames, "upstream.verifyNames")},
		key{"connectTimeout", func(n *yaml.Node) {
			p.connectTimeout = n
			p.duration(&u.ConnectTimeout, "upstream.connectTimeout")(n)
		}},
		key{"timeout", func(n *yaml.Node) {
			if p.connectTimeout == nil {
				p.connectTimeout = n
			}
			p.duration(&u.Timeout, "upstream.timeout")(n)
		}},
	)
}
