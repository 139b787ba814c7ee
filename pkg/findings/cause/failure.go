// SPDX-License-Identifier: Apache-2.0

package cause

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
)

// MaxOthers bounds the other addresses of a [Failure]: more ingress addresses than a
// host has.
const MaxOthers = 16

// Failure is an exchange with a finding, as a child process reports it.
type Failure struct {
	Cause    string         `json:"cause"`          // of an entry of the catalogue
	Addr     netip.AddrPort `json:"addr,omitzero"`  // of the ingress; the zero value when no address is known
	ViaProxy bool           `json:"proxy,omitzero"` // an egress proxy is on the way, which the reader knows
	Details  Details        `json:"why,omitzero"`
	Others   []OtherFailure `json:"also,omitempty"` // the other addresses that were tried afterwards
}

// OtherFailure is what another address has come to.
type OtherFailure struct {
	Cause string         `json:"cause"`
	Addr  netip.AddrPort `json:"addr,omitzero"`
}

// Context is what the reader of a [Failure] knows by itself: the names and texts of
// the configuration. No child sends them.
type Context struct {
	Host          string   // that was asked for
	VerifyNames   []string // of upstream.verifyNames
	TrustedCAs    string   // what is trusted of the ingress, in one line
	AdditionalCAs string   // what is trusted besides, behind an egress proxy; empty: nothing
	ProxyCAs      string   // what is trusted of an egress proxy itself
	EgressProxies map[netip.AddrPort]EgressProxy
	// Unresolved is why no address of the egress proxy is known.
	ProxyLookupError string
}

// EgressProxy is an egress proxy by which an address is reached.
type EgressProxy struct {
	Name string
	Port uint16 // 0: not known
}

func (p EgressProxy) String() string {
	if p.Port == 0 {
		return p.Name
	}
	return net.JoinHostPort(p.Name, strconv.Itoa(int(p.Port)))
}

// ErrInvalid is what no child of ours reports.
var ErrInvalid = errors.New("invalid failure report")

// IsKnown reports whether the catalogue has an entry for the cause.
func IsKnown(cause string) bool {
	_, known := findings.ForCause(cause)
	return cause != "" && known
}

// ValidateAddr refuses an address with an IPv6 zone, which may be any text.
func ValidateAddr(addr netip.Addr) error {
	if addr.Zone() != "" {
		return fmt.Errorf("%w: an address with a zone", ErrInvalid)
	}
	return nil
}

// WithoutZone is an address as [ValidateAddr] accepts it.
func WithoutZone(addr netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(addr.Addr().WithZone(""), addr.Port())
}

// Reply returns the line for a client whose exchange failed with this cause.
func Reply(id string) string { return findings.ReplyForCause(id) }

// Validate refuses a report that no child of ours sends.
func (f *Failure) Validate() error {
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

// Finding is the catalogue's entry for it, with the remediation.
func (f *Failure) Finding(c Context) findings.Finding {
	who := f.Addr.String()
	if f.ViaProxy && !isEgressCause(f.Cause) {
		who += " through the egress proxy " + f.proxyName(c)
	}
	return f.findingFor(who, c)
}

// Message is the catalogue's sentence for it, of what is called who.
func (f *Failure) Message(who string, c Context) string { return f.findingFor(who, c).Message }

func (f *Failure) findingFor(who string, c Context) findings.Finding {
	id, known := findings.ForCause(f.Cause)
	if !known {
		id = findings.ResponseMalformed
	}
	asked := sentenceContext{host: c.Host, verifyNames: c.VerifyNames, trusted: c.TrustedCAs, lookupError: c.ProxyLookupError}
	switch {
	case f.Cause == causeEgressTLS:
		asked.host, asked.verifyNames, asked.trusted = c.EgressProxies[f.Addr].Name, nil, c.ProxyCAs
	case f.ViaProxy && c.AdditionalCAs != "" && c.TrustedCAs != "":
		asked.trusted = c.TrustedCAs + " and " + c.AdditionalCAs
	case f.ViaProxy && c.AdditionalCAs != "":
		asked.trusted = c.AdditionalCAs
	}
	found := findings.New(id, "upstream", who, "error", f.Details.sentence(asked), "proxy", f.proxyName(c))
	if f.ViaProxy {
		return found.ViaEgressProxy()
	}
	return found
}

func (f *Failure) proxyName(c Context) string {
	if p, known := c.EgressProxies[f.Addr]; known {
		return p.String()
	}
	return "of an earlier configuration"
}

// Summary is the diagnosis and the remediation in one line. The other addresses come
// last.
func (f *Failure) Summary(c Context) string {
	var b strings.Builder
	b.WriteString(f.Finding(c).String())
	for _, other := range f.Others {
		reply := findings.ReplyForCause(other.Cause)
		if isEgressCause(other.Cause) {
			fmt.Fprintf(&b, "; then, for %v, %s", other.Addr, reply)
			continue
		}
		fmt.Fprintf(&b, "; then %v %s", other.Addr, strings.TrimPrefix(reply, "upstream "))
	}
	return b.String()
}

const causeEgressTLS = "egress-tls"

// isEgressCause holds for the causes whose entries name the proxy themselves.
func isEgressCause(cause string) bool { return strings.HasPrefix(cause, "egress-") }
