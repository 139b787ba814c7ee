// SPDX-License-Identifier: Apache-2.0

// Package upstream owns the way to the ingress router: which address is asked,
// the connections that are kept for the next challenge, and whether what came
// back is an answer.
//
// A [Client] connects to the configured ingress addresses, and to the egress proxy
// where one is on the way to these, and to no others. A connection is used again only
// after a complete, well-framed answer on a connection that both sides keep; an answer
// whose framing two readers could understand differently (RFC 9112 section 6.3) is
// none. What goes wrong is told apart, as an [Error] that names the cause and its mend.
package upstream
