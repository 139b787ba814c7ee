// SPDX-License-Identifier: Apache-2.0

package upstream

import "net/netip"

// ErrTooLarge is a response that is longer than any key authorisation.
var ErrTooLarge = errTooLarge

// DialError classifies the error of a connection attempt, for callers that connect
// to an address themselves.
func DialError(addr netip.AddrPort, err error) *Error { return dialError(addr, err) }

// ExchangeError classifies the error of an accepted connection. received means that
// a part of the response had arrived.
func ExchangeError(addr netip.AddrPort, err error, received bool) *Error {
	return exchangeError(addr, err, received)
}

// ResponseCause returns the cause that a complete response shows. https means that its
// Location is an https URL, loop that its Proxy-Status names a loop. A 503 is the
// router's own, whatever its page: the cluster can configure the page
// (IngressController, spec.httpErrorCodePages), and no solver answers 503.
func ResponseCause(status int, https, looped bool) Cause {
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
