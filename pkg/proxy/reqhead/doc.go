// SPDX-License-Identifier: Apache-2.0

// Package reqhead owns one request head: its strict RFC 9112 grammar, the verdict
// on it, and the head that is forwarded in its place.
//
// It does no I/O and keeps no copy: a [Request] refers into the caller's read
// buffer, so that reading, judging and rewriting a head allocate nothing.
//
// Where RFC 9112 leaves a choice, or asks a general server for more, the choice
// here is the narrow one, because a front door that two parsers read
// differently is a way around it:
//
//   - Lines end in CRLF only (section 2.2 would allow a bare LF), and no empty
//     line may come before the request line: that leniency is for what clients
//     once sent after a body on a kept connection, and there is none here.
//   - The verdict is on the raw target. An absolute-form target (section 3.2.2)
//     does not begin with the prefix and is refused like every other target
//     that does not: no validator sends one, and it would be a second place
//     besides Host that names the authority.
//   - The versions are HTTP/1.0 and HTTP/1.1, spelled so.
//   - Content-Length comes once and is digits; Transfer-Encoding comes once,
//     not with Content-Length and not from HTTP/1.0 (section 6.1).
//   - Of the client's fields a short list goes on, see fieldKindOf, and nothing else.
//     RFC 9110 section 5.1 lets a proxy block fields by configuration, and this
//     one forwards a single kind of request, to which cookies, credentials and
//     extensions mean nothing. What servers take for routing or for the
//     client's address has too many names to list (X-Original-URL undoes the
//     path's verdict; X_Forwarded_For becomes X-Forwarded-For behind CGI), and
//     hop-by-hop fields (section 7.6.1) need no list either.
//   - A request whose Via names this service has been here before: it is refused
//     as a loop, before a route that leads back here makes a hundred of it.
//   - Bytes after the head are neither a body (none is announced) nor a second
//     request (one is served per connection): they are refused.
package reqhead
