// SPDX-License-Identifier: Apache-2.0

// Package server owns the front door: it accepts connections, reads one request
// head from each, and either answers by itself or has the upstream answer.
//
// A connection carries one request and is closed after the answer; validators
// use no other kind. What may be forwarded is decided by package head; how the
// ingress is asked and what counts as an answer, behind [Upstream]. Every wait
// has an end: the head, the challenge as a whole, each write, and the moment
// after an answer in which the client may still be sending.
package server
