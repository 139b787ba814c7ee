// SPDX-License-Identifier: Apache-2.0

// Package server owns the client side of the proxy: it accepts connections, reads one
// request head from each, and answers the request or forwards it to the ingress. Only the
// proxy links it.
//
// A connection carries one request and is closed after the response; validators use no
// other kind. Package reqhead decides which requests may be forwarded. Every wait is
// bounded: for the head, for a slot, for the challenge as a whole, for each write, and for a
// client that still sends after the response.
//
// Each connection belongs to one worker, which runs on an event loop. The worker exchanges
// plain HTTP with the ingress itself. Everything else is delegated to a goroutine, which
// calls [Upstream] and never uses the socket of the client: TLS, PROXY headers, egress
// proxies, redirects that are followed, and further addresses after a failure.
//
// These are the states of a connection. Each except closed can also end, which leads to
// closed.
//
//	state      | event     | next       | waits for
//	closed     | accepted  | reading    | a client
//	reading    | forward   | sending    | the head
//	reading    | connects  | connecting | the head
//	reading    | exceeds   | queueing   | the head
//	reading    | delegates | delegated  | the head
//	reading    | reply     | replying   | the head
//	queueing   | forward   | sending    | a slot of its source
//	queueing   | connects  | connecting | a slot of its source
//	queueing   | delegates | delegated  | a slot of its source
//	queueing   | reply     | replying   | a slot of its source
//	connecting | connected | sending    | a connection to the ingress
//	connecting | delegates | delegated  | a connection to the ingress
//	connecting | reply     | replying   | a connection to the ingress
//	sending    | sent      | awaiting   | the ingress to take the request
//	sending    | connects  | connecting | the ingress to take the request
//	sending    | delegates | delegated  | the ingress to take the request
//	sending    | reply     | replying   | the ingress to take the request
//	awaiting   | responds  | relaying   | the head of the response
//	awaiting   | connects  | connecting | the head of the response
//	awaiting   | delegates | delegated  | the head of the response
//	awaiting   | reply     | replying   | the head of the response
//	relaying   | blocks    | flushing   | the body
//	relaying   | reply     | replying   | the body
//	relaying   | drains    | draining   | the body
//	flushing   | flushed   | relaying   | a slow client
//	delegated  | writes    | delivering | the goroutine
//	delegated  | reply     | replying   | the goroutine
//	delegated  | drains    | draining   | the goroutine
//	delivering | flushed   | delegated  | a slow client
//	replying   | drains    | draining   | the client to take the response
//	draining   |           |            | the client to close
package server
