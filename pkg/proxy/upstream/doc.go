// SPDX-License-Identifier: Apache-2.0

// Package upstream owns the exchange with the ingress router: the order of the
// addresses, the connections that are kept for reuse, and the validation of responses.
// The proxy and the prober link it.
//
// A [Client] connects only to the configured ingress addresses and to the egress proxies
// on their routes. A connection is reused only after a complete, well-framed response, if
// neither side closes it. A response whose framing two parsers could understand
// differently is rejected (RFC 9112 section 6.3). Failures are classified as an [Error]
// with a cause.
package upstream
