// SPDX-License-Identifier: Apache-2.0

package config

import (
	"reflect"
	"time"
)

// Scheme is the protocol of requests to the ingress.
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

// Upstream configures the requests to the ingress.
type Upstream struct {
	Scheme          Scheme
	Port            uint16 // for http
	HTTPSPort       uint16 // for https, and for redirects to https
	ExplicitPorts   ExplicitPorts
	FollowRedirects bool // from http to https with the same host and path
	ProxyProtocol   ProxyProtocol
	// TrustedCA is the absolute path of a PEM bundle. If there is no such file, the system's CAs are
	// trusted.
	TrustedCA string
	// VerifyNames are names that the ingress's certificate may contain besides the request's
	// host. They are canonical and may start with "*.".
	VerifyNames []string

	ConnectTimeout time.Duration // of one dial
	Timeout        time.Duration // of one challenge, including both families and all redirects
}

// ExplicitPorts records which ports the configuration sets explicitly.
type ExplicitPorts struct{ HTTP, HTTPS bool }

// Equal reports whether both values are the same.
func (u Upstream) Equal(other Upstream) bool { return reflect.DeepEqual(u, other) }

// UsesTLS reports whether any request may use TLS.
func (c Config) UsesTLS() bool {
	return c.Upstream.Scheme == SchemeHTTPS || c.Upstream.FollowRedirects || c.EgressProxy.Upstream != EgressNever
}

// InitialPort returns the port of the first request of a challenge. A redirect may lead to
// HTTPSPort.
func (u Upstream) InitialPort() uint16 {
	if u.Scheme == SchemeHTTPS {
		return u.HTTPSPort
	}
	return u.Port
}
