// SPDX-License-Identifier: Apache-2.0

// Package reqhead owns the request head: its strict RFC 9112 grammar, its validation,
// and the head that is forwarded in its place. The proxy and the prober link it.
//
// It does no I/O and keeps no copy. A [Request] refers to the caller's read buffer, so
// that parsing, validating and rewriting a head allocate nothing.
//
// Where RFC 9112 leaves a choice, or requires more of a general server, this parser is
// strict: a request that two parsers read differently could bypass the validation.
//
//   - Lines end in CRLF only; section 2.2 would allow a bare LF. No empty line may come
//     before the request line: that leniency is for old clients that sent one after a
//     body on a persistent connection, which this proxy does not support.
//   - The raw target is validated. An absolute-form target (section 3.2.2) does not
//     begin with the prefix and is rejected. No validator sends one, and it would be a
//     second place besides Host that names the authority.
//   - The versions are HTTP/1.0 and HTTP/1.1, in exactly this spelling.
//   - Content-Length occurs at most once and is digits. Transfer-Encoding occurs at most
//     once, not with Content-Length and not with HTTP/1.0 (section 6.1).
//   - Only a short list of the client's fields is forwarded, see fieldKinds. RFC 9110
//     section 5.1 permits a proxy to block fields by configuration. This proxy forwards
//     a single kind of request, which needs no cookies, credentials or extensions. A
//     list of harmful fields would be too long: servers use many names for routing and
//     for the client's address. X-Original-URL overrides the validated path, and
//     X_Forwarded_For becomes X-Forwarded-For behind CGI. Hop-by-hop fields (section
//     7.6.1) need no list either.
//   - A request whose Via names this service already passed it. It is rejected as a loop,
//     before a route that leads back here multiplies it.
//   - Bytes after the head are rejected: no body is announced, and a connection carries
//     one request.
package reqhead
