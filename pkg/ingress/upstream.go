// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
)

// The bounds of the values. A host has a few addresses and names.
const (
	maxAddresses = 64
	maxNames     = 1 << 12
	maxNameBytes = 255 // a DNS name (RFC 1035 section 2.3.4)
	maxTimeout   = 10 * time.Minute
)

var errInvalid = errors.New("invalid upstream settings")

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
	VerifyNames     []string      `json:"verifyNames,omitempty"` // accepted in a router's certificate in place of the request's host
	ConnectTimeout  time.Duration `json:"connectTimeout"`        // of each step of opening a connection
	Timeout         time.Duration `json:"timeout"`               // of a whole challenge
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

// UnmarshalJSON decodes and validates the settings.
func (u *Upstream) UnmarshalJSON(text []byte) error {
	type encoded Upstream // without this method
	if err := decode(text, (*encoded)(u)); err != nil {
		return err
	}
	return u.validate()
}

func (u *Upstream) validate() error {
	switch {
	case len(u.Addresses) > maxAddresses:
		return fmt.Errorf("%w: %d addresses, more than %d", errInvalid, len(u.Addresses), maxAddresses)
	case !u.TLS && u.Port == 0, (u.TLS || u.FollowRedirects) && u.HTTPSPort == 0:
		return fmt.Errorf("%w: port 0", errInvalid)
	case u.ProxyProtocol < ProxyProtocolOff || u.ProxyProtocol > ProxyProtocolV2:
		return fmt.Errorf("%w: PROXY protocol version %d", errInvalid, u.ProxyProtocol)
	case u.ConnectTimeout <= 0 || u.ConnectTimeout > maxTimeout, u.Timeout <= 0 || u.Timeout > maxTimeout:
		return fmt.Errorf("%w: timeouts of %v and %v", errInvalid, u.ConnectTimeout, u.Timeout)
	case len(u.VerifyNames) > maxNames:
		return fmt.Errorf("%w: %d names, more than %d", errInvalid, len(u.VerifyNames), maxNames)
	}
	for _, addr := range u.Addresses {
		if !addr.IsValid() {
			return fmt.Errorf("%w: an address is missing", errInvalid)
		}
	}
	for _, name := range u.VerifyNames {
		if name == "" || len(name) > maxNameBytes {
			return fmt.Errorf("%w: a name of %d bytes", errInvalid, len(name))
		}
	}
	return nil
}

// decode rejects unknown fields. A type with UnmarshalJSON does not inherit that from
// the decoder of the whole message.
func decode(text []byte, value any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(value); err != nil {
		return fmt.Errorf("%w: %w", errInvalid, err)
	}
	return nil
}

// CauseContext returns what the sender of these settings has about a failure. Nil
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
