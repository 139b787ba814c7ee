// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"net/netip"
	"time"
)

// Request is one challenge that is forwarded. The memory that it refers to does not
// change until Exchange returns.
type Request struct {
	Deadline time.Time
	VIP      netip.AddrPort // destination of the client before the redirect; addresses of its family are tried first
	Client   netip.AddrPort
	Head     []byte // one complete head of a GET or HEAD, in origin-form
	Host     string // in canonical form, without a port; empty if the client sent none
	Target   []byte // as in Head
	IsHead   bool   // the method is HEAD
	HTTP10   bool   // the client does not support chunks
}
