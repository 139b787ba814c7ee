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

// MaxAlso bounds the other addresses of a [Failure]: more ingress addresses than a
// host has.
const MaxAlso = 16

// Failure is an exchange with a finding, as a child process reports it.
type Failure struct {
	Cause string         `json:"cause"`          // of an entry of the catalogue
	Addr  netip.AddrPort `json:"addr,omitzero"`  // of the ingress; the zero value when no address is known
	Proxy bool           `json:"proxy,omitzero"` // an egress proxy is on the way, which the reader knows
	Why   Why            `json:"why,omitzero"`
	Also  []Other        `json:"also,omitempty"` // the other addresses that were tried afterwards
}

// Other is what another address has come to.
type Other struct {
	Cause string         `json:"cause"`
	Addr  netip.AddrPort `json:"addr,omitzero"`
}

// Context is what the reader of a [Failure] knows by itself: the names and texts of
// the configuration. No child sends them.
type Context struct {
	Host    string   // that was asked for
	Names   []string // of upstream.verifyNames
	Trusted string   // what is trusted of the ingress, in one line
	Beyond  string   // what is trusted besides, behind an egress proxy; empty: nothing
	Proxies string   // what is trusted of an egress proxy itself
	Via     map[netip.AddrPort]Proxy
	// Unresolved is why no address of the egress proxy is known.
	Unresolved string
}

// Proxy is an egress proxy by which an address is reached.
type Proxy struct {
	Name string
	Port uint16 // 0: not known
}

func (p Proxy) String() string {
	if p.Port == 0 {
		return p.Name
	}
	return net.JoinHostPort(p.Name, strconv.Itoa(int(p.Port)))
}

// ErrInvalid is what no child of ours reports.
var ErrInvalid = errors.New("invalid failure report")

// KnownCause reports whether the catalogue has an entry for the cause.
func KnownCause(cause string) bool {
	_, known := findings.OfCause(cause)
	return cause != "" && known
}

// CheckAddr refuses an address with an IPv6 zone, which may be any text.
func CheckAddr(addr netip.Addr) error {
	if addr.Zone() != "" {
		return fmt.Errorf("%w: an address with a zone", ErrInvalid)
	}
	return nil
}

// Unzoned is an address as [CheckAddr] accepts it.
func Unzoned(addr netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(addr.Addr().WithZone(""), addr.Port())
}

// Check refuses a report that no child of ours sends.
func (f *Failure) Check() error {
	if !KnownCause(f.Cause) {
		return fmt.Errorf("%w: an unknown cause", ErrInvalid)
	}
	if len(f.Also) > MaxAlso {
		return fmt.Errorf("%w: %d other addresses", ErrInvalid, len(f.Also))
	}
	for _, other := range f.Also {
		if !KnownCause(other.Cause) {
			return fmt.Errorf("%w: an unknown cause", ErrInvalid)
		}
		if err := CheckAddr(other.Addr.Addr()); err != nil {
			return err
		}
	}
	if err := CheckAddr(f.Addr.Addr()); err != nil {
		return err
	}
	return f.Why.Check()
}

// Finding is the catalogue's entry for it, with the remediation.
func (f *Failure) Finding(c Context) findings.Finding {
	who := f.Addr.String()
	if f.Proxy && !ofEgress(f.Cause) {
		who += " through the egress proxy " + f.proxy(c)
	}
	return f.find(who, c)
}

// Says is the catalogue's sentence for it, of what is called who.
func (f *Failure) Says(who string, c Context) string { return f.find(who, c).Says }

func (f *Failure) find(who string, c Context) findings.Finding {
	id, known := findings.OfCause(f.Cause)
	if !known {
		id = findings.AnswerMalformed
	}
	asked := asked{host: c.Host, names: c.Names, trusted: c.Trusted, unresolved: c.Unresolved}
	switch {
	case f.Cause == egressTLS:
		asked.host, asked.names, asked.trusted = c.Via[f.Addr].Name, nil, c.Proxies
	case f.Proxy && c.Beyond != "" && c.Trusted != "":
		asked.trusted = c.Trusted + " and " + c.Beyond
	case f.Proxy && c.Beyond != "":
		asked.trusted = c.Beyond
	}
	found := findings.Find(id, "upstream", who, "error", f.Why.text(asked), "proxy", f.proxy(c))
	if f.Proxy {
		return found.ThroughProxy()
	}
	return found
}

func (f *Failure) proxy(c Context) string {
	if p, known := c.Via[f.Addr]; known {
		return p.String()
	}
	return "of an earlier configuration"
}

// Detail is the diagnosis and the remediation in one line. The other addresses come
// last.
func (f *Failure) Detail(c Context) string {
	var b strings.Builder
	b.WriteString(f.Finding(c).String())
	for _, other := range f.Also {
		reply := findings.Reply(other.Cause)
		if ofEgress(other.Cause) {
			fmt.Fprintf(&b, "; then, for %v, %s", other.Addr, reply)
			continue
		}
		fmt.Fprintf(&b, "; then %v %s", other.Addr, strings.TrimPrefix(reply, "upstream "))
	}
	return b.String()
}

const egressTLS = "egress-tls"

// ofEgress holds for the causes whose entries name the proxy themselves.
func ofEgress(cause string) bool { return strings.HasPrefix(cause, "egress-") }
