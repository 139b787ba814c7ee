// SPDX-License-Identifier: Apache-2.0

package upstream

import "net/netip"

// ErrTooLarge is an answer with more than any key authorisation.
var ErrTooLarge = errTooLarge

// DialError tells the ways apart in which a connection attempt fails, for those
// who ask an address by themselves.
func DialError(addr netip.AddrPort, err error) *Error { return dialError(addr, err) }

// TalkError tells the ways apart in which a connection fails that was accepted;
// got says whether a part of the answer had come.
func TalkError(addr netip.AddrPort, err error, got bool) *Error { return talkError(addr, err, got) }
