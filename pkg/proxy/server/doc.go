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
//	state      | waits for                        | event     | next
//	closed     | a client                         | accepted  | reading
//	reading    | the head                         | forward   | sending
//	reading    | the head                         | connects  | connecting
//	reading    | the head                         | exceeds   | queueing
//	reading    | the head                         | delegates | delegated
//	reading    | the head                         | reply     | replying
//	queueing   | a slot of its source             | forward   | sending
//	queueing   | a slot of its source             | connects  | connecting
//	queueing   | a slot of its source             | delegates | delegated
//	queueing   | a slot of its source             | reply     | replying
//	connecting | a connection to the ingress      | connected | sending
//	connecting | a connection to the ingress      | delegates | delegated
//	connecting | a connection to the ingress      | reply     | replying
//	sending    | the ingress to take the request  | sent      | awaiting
//	sending    | the ingress to take the request  | connects  | connecting
//	sending    | the ingress to take the request  | delegates | delegated
//	sending    | the ingress to take the request  | reply     | replying
//	awaiting   | the head of the response         | responds  | relaying
//	awaiting   | the head of the response         | connects  | connecting
//	awaiting   | the head of the response         | delegates | delegated
//	awaiting   | the head of the response         | reply     | replying
//	relaying   | the body                         | blocks    | flushing
//	relaying   | the body                         | reply     | replying
//	relaying   | the body                         | drains    | draining
//	flushing   | a slow client                    | flushed   | relaying
//	delegated  | the goroutine                    | writes    | delivering
//	delegated  | the goroutine                    | reply     | replying
//	delegated  | the goroutine                    | drains    | draining
//	delivering | a slow client                    | flushed   | delegated
//	replying   | the client to take the response  | drains    | draining
//	draining   | the client to close              |           |
package server
