// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"net/netip"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
)

// SocketBuffer is the buffer size for each direction; the kernel doubles it
// (socket(7)). A request head fits. A body for a slow client waits at the router
// and not in the memory of this host.
const SocketBuffer = 8 << 10

// Direct is the route of most requests: plain HTTP to the first address, without a PROXY
// header and without an egress proxy. The event loops exchange these requests themselves.
type Direct struct {
	Addr           netip.AddrPort
	Others         int // addresses that can be tried afterwards
	ConnectTimeout time.Duration
	settings       *activeSettings
}

// Direct returns the direct route for requests to a VIP. ok is false if they need Exchange.
func (c *Client) Direct(vip netip.Addr) (d Direct, ok bool) {
	s := c.currentSettings()
	addrs := s.inOrder(vip, false)
	if len(addrs) == 0 || s.plainAddrs == nil || s.proxyProtocol != ingress.ProxyProtocolOff ||
		addrs[0].Addr().Zone() != "" || s.egress.proxyFor(addrs[0]) != nil {
		return d, false
	}
	return Direct{addrs[0], len(addrs) - 1, s.connectTimeout, s}, true
}

// Begin starts to relay a response with a complete head. It returns the cause that the
// response shows as an *Error, or nil. follow means that nothing may be relayed, and that
// Exchange has to follow the redirect.
func (d *Direct) Begin(x *Relay, r *Request) (shown error, follow bool, err error) {
	if err := x.frame(r.IsHead); err != nil {
		return nil, false, err
	}
	cause, follow := x.classifyResponse(r, d.settings, 0)
	if follow {
		x.discard()
		return nil, true, nil
	}
	shown = x.result(upstreamRoute{addr: d.Addr}, cause)
	x.begin(r.HTTP10)
	return shown, false, nil
}
