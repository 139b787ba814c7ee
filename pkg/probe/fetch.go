// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"net/netip"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/control"
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

	Configure control.Configure `json:"configure"` // Ingress is the address that is asked
	Trust     *control.Trust    `json:"trust,omitempty"`
	Egress    *control.Egress   `json:"egress,omitempty"`
}

// Fetch is how that went. Without an answer Cause says why, in the words of
// package upstream.
type Fetch struct {
	Connected time.Duration `json:"connected"` // since the beginning; 0: never
	FirstByte time.Duration `json:"firstByte"` // the same
	Total     time.Duration `json:"total"`

	Status      int       `json:"status"` // 0: there was no answer
	Server      string    `json:"server"` // of the head, as are the next five
	ProxyStatus string    `json:"proxyStatus"`
	Via         string    `json:"via"`
	Location    string    `json:"location"`
	ContentType string    `json:"contentType"`
	Date        time.Time `json:"date,omitzero"`
	Body        []byte    `json:"body"`   // how it begins, MaxBody bytes: not for printing as it is
	Length      int       `json:"length"` // of the body, up to MaxLength

	Cause  string `json:"cause"`
	Detail string `json:"detail"` // what the system or the parser said

	// As the gate asks:
	At      netip.AddrPort `json:"at"`      // whom it was asked last, an ingress address with the port
	Proxy   string         `json:"proxy"`   // the egress proxy, where Cause has to do with it
	Verdict string         `json:"verdict"` // the cause that is read off a whole answer; empty: none
}

// What is read of a body, and what is handed over of it.
const (
	MaxLength = 64 << 10
	MaxBody   = 512
)

func (f *Fetch) tame() {
	for _, text := range []*string{&f.Server, &f.ProxyStatus, &f.Via, &f.Location, &f.ContentType, &f.Cause, &f.Verdict, &f.Proxy} {
		*text = line(*text)
	}
	f.Detail = lineOf(f.Detail, maxDetail)
	f.Body = f.Body[:min(len(f.Body), MaxBody)]
	for _, d := range []*time.Duration{&f.Connected, &f.FirstByte, &f.Total} {
		*d = max(0, *d)
	}
	if f.Status < 100 || f.Status > 999 {
		f.Status = 0
	}
	f.Length = max(0, min(f.Length, MaxLength))
}
