// SPDX-License-Identifier: Apache-2.0

// Package upstream owns the exchange with the ingress router: which address is tried, how
// it is reached, and the validation of responses. The proxy and the prober link it.
//
// A request reaches the ingress directly or delegated. [Client.Direct] selects the direct route
// where it is possible. Both relay the response by the same code, which does no I/O.
//
//	         | direct                           | delegated
//	requests | plain HTTP to the first address  | TLS, PROXY header, egress proxy, redirects,
//	         | of the VIP's family              | other addresses after a failure
//	runs on  | the event loops of package server| a goroutine, in Exchange
//	route    | direct.go                        | settings.go, exchange.go, redirect.go
//	connects | package server, link.go          | dial.go, egress.go, proxyprotocol.go, verify.go
//	keeps    | package server, link.go          | idle.go
//	response | relay.go, response.go, chunks.go | the same
//	errors   | cause.go                         | the same
//
// A [Client] connects only to the configured ingress addresses and to the egress proxies
// on their routes. A connection is reused only after a complete, well-framed response, if
// neither side closes it. A response whose framing two parsers could understand
// differently is rejected (RFC 9112 section 6.3). Failures are classified as an [Error]
// with a cause: the ID of a finding.
package upstream
