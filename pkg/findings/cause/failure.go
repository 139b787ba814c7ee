// SPDX-License-Identifier: Apache-2.0

package cause

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"syscall"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
)

// MaxOthers bounds the other addresses of a [Failure]. A host has fewer ingress
// addresses.
const MaxOthers = 16

// Failure is a failed exchange, as a child process reports it.
type Failure struct {
	Cause    string         `json:"cause"`             // of a finding
	Addr     netip.AddrPort `json:"addr,omitzero"`     // of the ingress; zero if no address is known
	ViaProxy bool           `json:"viaProxy,omitzero"` // an egress proxy was used, which the receiver names
	Details  Details        `json:"details,omitzero"`
	Others   []OtherFailure `json:"others,omitempty"` // the addresses that were tried afterwards
}

// OtherFailure is the result for another address.
type OtherFailure struct {
	Cause string         `json:"cause"`
	Addr  netip.AddrPort `json:"addr,omitzero"`
}

// Context holds the names and texts of the configuration that the reader of a [Failure]
// adds. No child process sends them.
type Context struct {
	Host          string   // of the request
	Name          string   // of the API, whose challenge failed; empty if a client chose it
	VerifyNames   []string // of upstream.verifyNames
	TrustedCAs    string   // for the ingress, in one line
	AdditionalCAs string   // also trusted behind an egress proxy; empty: none
	ProxyCAs      string   // for the egress proxy itself
	EgressProxies map[netip.AddrPort]EgressProxy
	// ProxyLookupError is the reason why no address of the egress proxy is known.
	ProxyLookupError string
}

// EgressProxy is the egress proxy through which an address is reached.
type EgressProxy struct {
	Name string
	Port uint16 // 0: unknown
}

func (p EgressProxy) String() string {
	if p.Port == 0 {
		return p.Name
	}
	return net.JoinHostPort(p.Name, strconv.Itoa(int(p.Port)))
}

// ErrInvalid reports a value that no child process of this program sends.
var ErrInvalid = errors.New("invalid failure report")

// IsKnown reports whether a finding exists for the cause.
func IsKnown(cause string) bool { return findings.IsCause(cause) }

// ValidateAddr rejects an address with an IPv6 zone, which may be any text.
func ValidateAddr(addr netip.Addr) error {
	if addr.Zone() != "" {
		return fmt.Errorf("%w: an address with a zone", ErrInvalid)
	}
	return nil
}

// WithoutZone returns the address in the form that [ValidateAddr] accepts.
func WithoutZone(addr netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(addr.Addr().WithZone(""), addr.Port())
}

// Reply returns the line for a client whose exchange failed with this cause.
func Reply(id string) string { return findings.ReplyForCause(id) }

// Validate rejects a report that no child process of this program sends. It accepts nil,
// which is no failure.
func (f *Failure) Validate() error {
	if f == nil {
		return nil
	}
	if !IsKnown(f.Cause) {
		return fmt.Errorf("%w: an unknown cause", ErrInvalid)
	}
	if len(f.Others) > MaxOthers {
		return fmt.Errorf("%w: %d other addresses", ErrInvalid, len(f.Others))
	}
	for _, other := range f.Others {
		if !IsKnown(other.Cause) {
			return fmt.Errorf("%w: an unknown cause", ErrInvalid)
		}
		if err := ValidateAddr(other.Addr.Addr()); err != nil {
			return err
		}
	}
	if err := ValidateAddr(f.Addr.Addr()); err != nil {
		return err
	}
	return f.Details.Validate()
}

// Finding returns the finding, with the remediation.
func (f *Failure) Finding(c Context) findings.Finding {
	upstream := f.Addr.String()
	if f.ViaProxy && !isEgressCause(f.Cause) {
		upstream += " through the egress proxy " + f.proxyName(c)
	}
	return f.findingFor(upstream, c)
}

// Message returns the sentence of the finding about an upstream, which may be any name.
func (f *Failure) Message(upstream string, c Context) string {
	return f.findingFor(upstream, c).Message
}

func (f *Failure) findingFor(upstream string, c Context) findings.Finding {
	id := findings.ID(f.Cause)
	if !IsKnown(f.Cause) {
		id = findings.ResponseMalformed
	}
	proxy := f.proxyName(c)
	switch {
	case id == findings.EgressTLS:
		c.Host, c.VerifyNames, c.TrustedCAs = c.EgressProxies[f.Addr].Name, nil, c.ProxyCAs
	case f.ViaProxy && c.AdditionalCAs != "" && c.TrustedCAs != "":
		c.TrustedCAs += " and " + c.AdditionalCAs
	case f.ViaProxy && c.AdditionalCAs != "":
		c.TrustedCAs = c.AdditionalCAs
	}
	values := findings.Values{"upstream": upstream, "error": f.Details.Text(c), "proxy": proxy, "name": c.Name}
	if id == findings.IngressUnreachable && (f.Details.Is(syscall.EACCES) || f.Details.Is(syscall.EPERM)) {
		// Also an ICMP message of another host, "administratively prohibited".
		values["error"] += ": a firewall or a route rejects the connection"
	}
	if f.Addr.IsValid() {
		values["router"], values["address"] = f.Addr.String(), f.Addr.Addr().String()
	}
	finding := findings.New(id, values)
	if f.ViaProxy {
		return finding.ViaEgressProxy()
	}
	return finding
}

func (f *Failure) proxyName(c Context) string {
	if p, known := c.EgressProxies[f.Addr]; known {
		return p.String()
	}
	return "of an earlier configuration"
}

// Summary is the message, the results of the other addresses and the remediation in
// one line.
func (f *Failure) Summary(c Context) string {
	finding := f.Finding(c)
	var b strings.Builder
	b.WriteString(finding.Message)
	for _, other := range f.Others {
		reply := findings.ReplyForCause(other.Cause)
		if isEgressCause(other.Cause) {
			fmt.Fprintf(&b, "; then, for %v, %s", other.Addr, reply)
			continue
		}
		fmt.Fprintf(&b, "; then %v %s", other.Addr, strings.TrimPrefix(reply, "upstream "))
	}
	finding.Message = b.String()
	return finding.String()
}

// isEgressCause reports whether the finding of a cause names the proxy itself.
func isEgressCause(cause string) bool { return strings.HasPrefix(cause, "egress-") }
