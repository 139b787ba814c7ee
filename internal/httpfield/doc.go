// SPDX-License-Identifier: Apache-2.0

// Package httpfield owns the grammar of field lines: what RFC 9110 section 5 and
// RFC 9112 section 5 say of names, values and lists, in requests and answers
// alike.
//
// One implementation for both directions, so that what is refused in a request
// is refused in an answer. All functions read the caller's bytes and return
// parts of them; none allocates.
package httpfield
