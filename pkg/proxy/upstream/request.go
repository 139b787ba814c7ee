// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"net/netip"
	"time"
)

// Request is one challenge that is asked for. What it refers to stays as it is
// until Exchange returns.
type Request struct {
	Deadline time.Time
	VIP      netip.AddrPort // what the client connected to, before the kernel led it here; its family is asked first
	Client   netip.AddrPort
	Head     []byte // one complete head of a GET or HEAD, in origin-form
	Host     string // in canonical form, without a port; empty when the client has named none
	Target   []byte // as in Head
	IsHead   bool   // the request is HEAD
	HTTP10   bool   // the client cannot read chunks
}
