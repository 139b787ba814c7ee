// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
)

// FetchRequest asks for one page, as a validator does: one GET over a connection
// of its own, without following what it says.
type FetchRequest struct {
	Addr           netip.AddrPort `json:"addr"`
	Host           string         `json:"host"`
	Path           string         `json:"path"`
	UserAgent      string         `json:"agent"`   // User-Agent
	TLS            bool           `json:"secure"`  // over TLS, with Host as SNI; nothing is verified
	ConnectTimeout time.Duration  `json:"connect"` // the longest wait for the connection

	ViaProxy *ProxyExchange `json:"gate,omitempty"` // Addr is asked as the gate asks it; nil: as it says above
}

// ProxyExchange is how the gate asks the ingress for a challenge: by TLS or not, with
// redirects that it follows, the PROXY protocol, or through the egress proxy.
type ProxyExchange struct {
	Client netip.AddrPort `json:"client"` // for whom
	VIP    netip.AddrPort `json:"vip"`    // what that one has connected to

	Upstream ingress.Upstream  `json:"upstream"` // with the one address that is asked
	CAs      *ingress.CABundle `json:"cas,omitempty"`
	Egress   *ingress.Egress   `json:"egress,omitempty"`
}

// FetchResult is how that went. Without an answer Cause says why, in the words of
// package upstream.
type FetchResult struct {
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

	Cause   string        `json:"cause"`
	Details cause.Details `json:"why,omitzero"` // what the system or the parser said of it, or of Verdict

	// As the gate asks:
	UpstreamAddr   netip.AddrPort `json:"at"`      // whom it was asked last, an ingress address with the port
	ViaEgressProxy bool           `json:"proxy"`   // Cause has to do with the egress proxy
	ResponseCause  string         `json:"verdict"` // the cause that is read off a whole answer; empty: none

	Context cause.Context `json:"-"` // what this side knows by itself
}

// What is read of a body, and what is handed over of it.
const (
	MaxLength = 64 << 10
	MaxBody   = 512
)

// Failure is why there was no answer, or what was found in one, where cause is Cause
// or Verdict.
func (f *FetchResult) Failure(causeID string, at netip.AddrPort) *cause.Failure {
	return &cause.Failure{Cause: causeID, Addr: at, ViaProxy: f.ViaEgressProxy, Details: f.Details}
}

func (f *FetchResult) validate() error {
	if f.Cause != "" && !cause.IsKnown(f.Cause) || f.ResponseCause != "" && !cause.IsKnown(f.ResponseCause) {
		return fmt.Errorf("%w: an unknown cause", cause.ErrInvalid)
	}
	return errors.Join(f.Details.Validate(), cause.ValidateAddr(f.UpstreamAddr.Addr()))
}

// causeContext is what who asks knows of a failure by itself.
func (q *FetchRequest) causeContext() cause.Context {
	known := cause.Context{}
	if q.ViaProxy != nil {
		known = ingress.CauseContext(&q.ViaProxy.Upstream, q.ViaProxy.CAs, q.ViaProxy.Egress)
	}
	known.Host = strings.Trim(q.Host, "[]")
	return known
}

func (f *FetchResult) sanitize() {
	for _, text := range []*string{&f.Server, &f.ProxyStatus, &f.Via, &f.Location, &f.ContentType} {
		*text = sanitizeLine(*text)
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
