// SPDX-License-Identifier: Apache-2.0

// Package server owns the client side of the proxy: it accepts connections, reads one
// request head from each, and answers the request or forwards it through [Upstream].
// Only the proxy links it.
//
// A connection carries one request and is closed after the response; validators use no
// other kind. Package reqhead decides which requests may be forwarded. Every wait is
// bounded: for the head, for the challenge as a whole, for each write, and for a client
// that still sends after the response.
package server
