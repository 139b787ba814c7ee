// SPDX-License-Identifier: Apache-2.0

package upstream

import "net/netip"

// ErrTooLarge is an answer with more than any key authorisation.
var ErrTooLarge = errTooLarge

// DialError tells the ways apart in which a connection attempt fails, for those
// who ask an address by themselves.
func DialError(addr netip.AddrPort, err error) *Error { return dialError(addr, err) }

// ExchangeError tells the ways apart in which a connection fails that was accepted;
// got says whether a part of the answer had come.
func ExchangeError(addr netip.AddrPort, err error, got bool) *Error {
	return exchangeError(addr, err, got)
}

// AnswerCause names what an operator wants to know about a whole answer: https says that
// its Location leads there, looped that its Proxy-Status names a loop. A 503 is the
// router's own, whatever its page is, since that may be the cluster's own
// (IngressController, spec.httpErrorCodePages): no solver answers so.
func AnswerCause(status int, https, looped bool) Cause {
	switch {
	case status == 503:
		return NoRoute
	case https && status >= 300 && status < 400:
		return RedirectToHTTPS
	case looped && status == 502:
		return Loop
	default:
		return ""
	}
}
