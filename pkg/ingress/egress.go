// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strconv"
)

// Egress decides which ingress addresses are reached through an egress proxy. All other
// addresses are reached directly.
type Egress struct {
	Routes []EgressRoute `json:"routes,omitempty"`
	// ProxyCAs verify the proxies' own certificates. The CAs of the ingress do not.
	ProxyCAs CABundle `json:"proxyCAs,omitzero"`
	// AdditionalCAs verify an ingress behind a proxy besides the CAs of the ingress,
	// because a proxy may intercept TLS.
	AdditionalCAs CABundle `json:"additionalCAs,omitzero"`
}

// EgressRoute is an ingress address with its port, and the proxy on its route. HTTP
// and TLS can use different proxies.
type EgressRoute struct {
	Ingress netip.AddrPort `json:"ingress"`
	Proxy   EgressProxy    `json:"proxy"`
}

// EgressProxy is an egress proxy. Its JSON form contains the secret, because the proxy
// process needs it; every printed form hides it.
type EgressProxy struct {
	Name          string           // host name without credentials, for TLS with the proxy and for findings
	TLS           bool             // TLS with the proxy itself
	Addrs         []netip.AddrPort // of the name, which the proxy process cannot resolve
	Authorization Secret
}

// encodedProxy is the JSON form of an EgressProxy.
type encodedProxy struct {
	Name          string           `json:"name"`
	TLS           bool             `json:"tls,omitempty"`
	Addrs         []netip.AddrPort `json:"addrs"`
	Authorization string           `json:"authorization,omitempty"`
}

// MarshalJSON implements [json.Marshaler].
func (p EgressProxy) MarshalJSON() ([]byte, error) {
	return json.Marshal(encodedProxy{p.Name, p.TLS, p.Addrs, p.Authorization.Reveal()})
}

// UnmarshalJSON implements [json.Unmarshaler].
func (p *EgressProxy) UnmarshalJSON(text []byte) error {
	var e encodedProxy
	if err := json.Unmarshal(text, &e); err != nil {
		return err
	}
	*p = EgressProxy{e.Name, e.TLS, e.Addrs, NewSecret(e.Authorization)}
	return nil
}

// String returns the name with the port.
func (p EgressProxy) String() string {
	if len(p.Addrs) == 0 {
		return p.Name
	}
	return net.JoinHostPort(p.Name, strconv.Itoa(int(p.Addrs[0].Port())))
}

// Format implements [fmt.Formatter]. No verb reveals the secret.
func (p EgressProxy) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, p.String()) }

// Equal compares the proxies, including their secrets.
func (p EgressProxy) Equal(other EgressProxy) bool {
	return p.Name == other.Name && p.TLS == other.TLS && slices.Equal(p.Addrs, other.Addrs) &&
		p.Authorization.Equal(other.Authorization)
}

// Equal reports whether both are the same decision.
func (e Egress) Equal(other Egress) bool {
	return e.ProxyCAs.Equal(other.ProxyCAs) && e.AdditionalCAs.Equal(other.AdditionalCAs) &&
		slices.EqualFunc(e.Routes, other.Routes, func(a, b EgressRoute) bool {
			return a.Ingress == b.Ingress && a.Proxy.Equal(b.Proxy)
		})
}

// CABundle is a set of trusted CAs.
type CABundle struct {
	Roots [][]byte `json:"roots"` // certificates in DER; empty: nothing is trusted
	// Description is the source of the CAs in one line, for findings, which only the controller renders.
	Description string `json:"-"`
}

// Equal reports whether both contain the same CAs with the same description.
func (b CABundle) Equal(other CABundle) bool {
	return b.Description == other.Description && slices.EqualFunc(b.Roots, other.Roots, bytes.Equal)
}

// Union returns the CAs of both, without duplicates.
func (b CABundle) Union(other CABundle) CABundle {
	more := slices.DeleteFunc(slices.Clone(other.Roots), func(der []byte) bool {
		return slices.ContainsFunc(b.Roots, func(root []byte) bool { return bytes.Equal(root, der) })
	})
	switch {
	case len(more) == 0:
		return b
	case len(b.Roots) == 0:
		return other
	default:
		return CABundle{Roots: slices.Concat(b.Roots, more), Description: b.Description + " and " + other.Description}
	}
}

// DescribeCAs returns a description for a number of CAs and their owner. It is empty for 0.
func DescribeCAs(number int, owner string) string {
	switch number {
	case 0:
		return ""
	case 1:
		return "the 1 CA of " + owner
	default:
		return fmt.Sprintf("the %d CAs of %s", number, owner)
	}
}
