// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/printable"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
)

// FetchRequest requests one page, as an ACME server does: one GET over its own
// connection. Redirects are not followed.
type FetchRequest struct {
	Addr           netip.AddrPort `json:"addr"`
	Host           string         `json:"host"`
	Path           string         `json:"path"`
	UserAgent      string         `json:"userAgent"`
	ConnectTimeout time.Duration  `json:"connectTimeout"` // bounds the connection attempt

	ViaProxy *ProxyExchange `json:"viaProxy,omitempty"` // requests the page as the proxy does; nil: as described above
}

// ProxyExchange describes how the proxy forwards a challenge to the ingress: with TLS or
// without, with redirects that it follows, the PROXY protocol, or an egress proxy.
type ProxyExchange struct {
	Client netip.AddrPort `json:"client"` // the client of the challenge
	VIP    netip.AddrPort `json:"vip"`    // the address that the client connected to

	Upstream ingress.Upstream  `json:"upstream"` // with one address
	CAs      *ingress.CABundle `json:"cas,omitempty"`
	Egress   *ingress.Egress   `json:"egress,omitempty"`
}

// FetchResult is the result of a [FetchRequest]. Cause is set when there was no answer: a
// cause of package upstream.
type FetchResult struct {
	Connected time.Duration `json:"connected"` // since the start; 0: never
	FirstByte time.Duration `json:"firstByte"` // since the start; 0: never
	Total     time.Duration `json:"total"`

	Status      int    `json:"status"` // 0: no answer
	Server      string `json:"server"` // this field, the next four and Body are text of the network
	ProxyStatus string `json:"proxyStatus"`
	Via         string `json:"via"`
	Location    string `json:"location"`
	ContentType string `json:"contentType"`
	Body        []byte `json:"body"`   // its first MaxBody bytes, not sanitized
	Length      int    `json:"length"` // of the body, up to MaxLength

	Cause   string        `json:"cause"`
	Details cause.Details `json:"details,omitzero"` // of Cause or ResponseCause

	// With ViaProxy:
	UpstreamAddr   netip.AddrPort `json:"upstreamAddr"`   // the last ingress address and port
	ViaEgressProxy bool           `json:"viaEgressProxy"` // Cause concerns the egress proxy
	ResponseCause  string         `json:"responseCause"`  // cause found in a complete answer; empty: none

	Context cause.Context `json:"-"` // added by the client
}

// The bounds of what is read of a body, and of what is reported of it.
const (
	MaxLength = 64 << 10
	MaxBody   = 512
)

// Failure returns the failure for a cause: Cause or ResponseCause.
func (f *FetchResult) Failure(causeID string, at netip.AddrPort) *cause.Failure {
	return &cause.Failure{Cause: causeID, Addr: at, ViaProxy: f.ViaEgressProxy, Details: f.Details}
}

func (f *FetchResult) validate() error {
	if f.Cause != "" && !cause.IsKnown(f.Cause) || f.ResponseCause != "" && !cause.IsKnown(f.ResponseCause) {
		return fmt.Errorf("%w: unknown cause", cause.ErrInvalid)
	}
	return errors.Join(f.Details.Validate(), cause.ValidateAddr(f.UpstreamAddr.Addr()))
}

// CauseContext returns what the sender of the request adds to a failure.
func (q *FetchRequest) CauseContext() cause.Context {
	known := cause.Context{}
	if q.ViaProxy != nil {
		known = ingress.CauseContext(&q.ViaProxy.Upstream, q.ViaProxy.CAs, q.ViaProxy.Egress)
	}
	known.Host = strings.Trim(q.Host, "[]")
	return known
}

func (f *FetchResult) sanitize() {
	for _, text := range []*string{&f.Server, &f.ProxyStatus, &f.Via, &f.Location, &f.ContentType} {
		*text = printable.Truncate(*text, maxText)
	}
	f.Body = f.Body[:min(len(f.Body), MaxBody)]
	for _, d := range []*time.Duration{&f.Connected, &f.FirstByte, &f.Total} {
		*d = max(0, *d)
	}
	f.Status = validStatus(f.Status)
	f.Length = max(0, min(f.Length, MaxLength))
}

// validStatus returns a status of three digits, or 0.
func validStatus(status int) int {
	if status < 100 || status > 999 {
		return 0
	}
	return status
}
