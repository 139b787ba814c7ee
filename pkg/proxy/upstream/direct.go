// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"net/netip"
	"slices"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
)

// SocketBuffer is the buffer size for each direction; the kernel doubles it
// (socket(7)). A request head fits.
const SocketBuffer = 8 << 10

// Direct is the route of most requests: plain HTTP to the first address, without a PROXY
// header and without an egress proxy. The event loops exchange these requests themselves.
type Direct struct {
	Addr           netip.AddrPort
	Others         int // addresses that can be tried afterwards
	ConnectTimeout time.Duration
	route          *upstreamRoute
	settings       *activeSettings
}

// Direct returns the direct route for requests to a VIP. ok is false if they need Exchange.
func (c *Client) Direct(vip netip.Addr) (d Direct, ok bool) {
	s := c.active.Load()
	if len(s.plain) == 0 {
		return d, false
	}
	r := s.plain[max(0, slices.IndexFunc(s.plain, func(r *upstreamRoute) bool { return r.hasFamilyOf(vip) }))]
	if r.proxyProtocol != ingress.ProxyProtocolOff || r.proxy != nil || r.addr.Addr().Zone() != "" {
		return d, false
	}
	return Direct{r.addr, len(s.plain) - 1, s.ConnectTimeout, r, s}, true
}

// Advance converts what x received of the response to r, and reports whether it is complete.
// follow means that Exchange must follow the redirect.
func (d *Direct) Advance(x *Relay, r *Request) (done, follow bool, err error) {
	if !x.begun {
		if complete, err := x.parseHead(); !complete || err != nil {
			return false, false, err
		}
		if follow, err = x.begin(r, d.settings, false); follow || err != nil {
			return false, follow, err
		}
	}
	err = x.advance()
	return x.done, false, err
}

// Shown returns the cause that a complete response shows, or nil.
func (d *Direct) Shown(x *Relay) *Error { return x.result(d.route) }
