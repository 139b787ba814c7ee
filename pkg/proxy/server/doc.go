// SPDX-License-Identifier: Apache-2.0

// Package server owns the client side of the proxy: it accepts connections, reads one
// request head from each, and answers the request or forwards it to the ingress. Only the
// proxy links it.
//
// A connection carries one request and is closed after the response; validators use no
// other kind. Package reqhead decides which requests may be forwarded. Every wait is
// bounded: for the head, for a slot, for the challenge as a whole, for each write, and for a
// client that still sends after the response. When slots are short, an exchange that the ingress
// keeps waiting ends for another one.
//
// Each connection belongs to one worker, which runs on an event loop. The worker exchanges
// plain HTTP with the ingress itself. Everything else is delegated to a goroutine, which
// calls [Upstream] and never uses the socket of the client: TLS, PROXY headers, egress
// proxies, redirects that are followed, and further addresses after a failure.
//
// These are the states of a connection. Each except closed can also end, which leads to
// closed.
//
//	state      | next                                             | waits for
//	closed     | reading                                          | a client
//	reading    | queueing connecting sending delegated replying   | the head
//	queueing   | connecting sending delegated replying            | a slot
//	connecting | sending delegated replying                       | a connection to the ingress
//	sending    | connecting awaiting delegated replying           | the ingress to take the request
//	awaiting   | connecting delegated replying                    | the response
//	delegated  | delegated replying                               | the goroutine
//	replying   | draining                                         | the client to take the response
//	draining   |                                                  | the client to close
//
// sending and awaiting lead back to connecting when the ingress closed a kept connection, or
// sent bytes on it that no request is waiting for. awaiting and delegated lead back when a
// response on a kept connection may be stale; see repeat.go. delegated also follows a failure
// while other addresses remain. The client gets a response when it is complete.
package server
