// SPDX-License-Identifier: Apache-2.0

// Package httpfield owns the grammar of HTTP field lines: names, values and lists by
// RFC 9110 section 5 and RFC 9112 section 5, and the grammar of host
// names. Every process links it.
//
// Requests and responses use the same implementation, so that a line that is rejected in
// one is rejected in the other. All functions read the caller's bytes and return parts
// of them; none allocates.
package httpfield
