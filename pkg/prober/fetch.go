// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/protocol"
)

// FetchQuestion asks for one page, as a validator does: one GET over a connection
// of its own, without following what it says.
type FetchQuestion struct {
	Addr    netip.AddrPort `json:"addr"`
	Host    string         `json:"host"`
	Path    string         `json:"path"`
	Agent   string         `json:"agent"`   // User-Agent
	Secure  bool           `json:"secure"`  // over TLS, with Host as SNI; nothing is verified
	Connect time.Duration  `json:"connect"` // the longest wait for the connection

	Gate *Gate `json:"gate,omitempty"` // Addr is asked as the gate asks it; nil: as it says above
}

// Gate is how the gate asks the ingress for a challenge: by TLS or not, with
// redirects that it follows, the PROXY protocol, or through the egress proxy.
type Gate struct {
	Client netip.AddrPort `json:"client"` // for whom
	VIP    netip.AddrPort `json:"vip"`    // what that one has connected to

	Configure protocol.Configure `json:"configure"` // Ingress is the address that is asked
	Trust     *protocol.Trust    `json:"trust,omitempty"`
	Egress    *protocol.Egress   `json:"egress,omitempty"`
}

// Fetch is how that went. Without an answer Cause says why, in the words of
// package upstream.
type Fetch struct {
	Connected time.Duration `json:"connected"` // since the beginning; 0: never
	FirstByte time.Duration `json:"firstByte"` // the same
	Total     time.Duration `json:"total"`

	Status      int       `json:"status"` // 0: there was no answer
	Server      string    `json:"server"` // of the head, as are the next five: the network's own words, as is Body
	ProxyStatus string    `json:"proxyStatus"`
	Via         string    `json:"via"`
	Location    string    `json:"location"`
	ContentType string    `json:"contentType"`
	Date        time.Time `json:"date,omitzero"`
	Body        []byte    `json:"body"`   // how it begins, MaxBody bytes: not for printing as it is
	Length      int       `json:"length"` // of the body, up to MaxLength

	Cause string    `json:"cause"`
	Why   cause.Why `json:"why,omitzero"` // what the system or the parser said of it, or of Verdict

	// As the gate asks:
	At      netip.AddrPort `json:"at"`      // whom it was asked last, an ingress address with the port
	Proxy   bool           `json:"proxy"`   // Cause has to do with the egress proxy
	Verdict string         `json:"verdict"` // the cause that is read off a whole answer; empty: none

	Context cause.Context `json:"-"` // what this side knows by itself
}

// What is read of a body, and what is handed over of it.
const (
	MaxLength = 64 << 10
	MaxBody   = 512
)

// Failure is why there was no answer, or what was found in one, where cause is Cause
// or Verdict.
func (f *Fetch) Failure(causeID string, at netip.AddrPort) *cause.Failure {
	return &cause.Failure{Cause: causeID, Addr: at, Proxy: f.Proxy, Why: f.Why}
}

func (f *Fetch) check() error {
	if f.Cause != "" && !cause.KnownCause(f.Cause) || f.Verdict != "" && !cause.KnownCause(f.Verdict) {
		return fmt.Errorf("%w: an unknown cause", cause.ErrInvalid)
	}
	return errors.Join(f.Why.Check(), cause.CheckAddr(f.At.Addr()))
}

// context is what who asks knows of a failure by itself.
func (q *FetchQuestion) context() cause.Context {
	known := cause.Context{}
	if q.Gate != nil {
		known = protocol.Context(&q.Gate.Configure, q.Gate.Trust, q.Gate.Egress)
	}
	known.Host = strings.Trim(q.Host, "[]")
	return known
}

func (f *Fetch) tame() {
	for _, text := range []*string{&f.Server, &f.ProxyStatus, &f.Via, &f.Location, &f.ContentType} {
		*text = line(*text)
	}
	f.Body = f.Body[:min(len(f.Body), MaxBody)]
	for _, d := range []*time.Duration{&f.Connected, &f.FirstByte, &f.Total} {
		*d = max(0, *d)
	}
	if f.Status < 100 || f.Status > 999 {
		f.Status = 0
	}
	f.Length = max(0, min(f.Length, MaxLength))
}
