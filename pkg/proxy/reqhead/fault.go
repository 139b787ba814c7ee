// SPDX-License-Identifier: Apache-2.0

package reqhead

import (
	"github.com/http01-proxyd/http01-proxyd/internal/httpfield"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// OnlyChallenges is the response to every request that is not a challenge.
const OnlyChallenges = report.OnlyChallenges

// InstanceField is the field with the ID of the service in the response to a test request.
const InstanceField = "Http01-Proxyd-Instance"

// Fault is the reason why a head is not forwarded. The set is fixed; [None] means
// no fault.
type Fault uint8

// The faults of the grammar, of Validate in the order of its checks, and of the read.
const (
	None Fault = iota

	BadRequestLine // not method SP target SP version
	BadLineEnd     // a line that does not end in CRLF, or a CR elsewhere
	UnknownVersion // neither HTTP/1.0 nor HTTP/1.1
	BadField       // not name ":" value
	FoldedField    // a field continued on the next line
	TooManyFields  // more than MaxFields
	BadHost        // Host is not a host name or address with an optional port
	MissingHost    // an HTTP/1.1 request without Host
	RepeatedHost   // more than one Host
	BadLength      // Content-Length is not one decimal number
	BadFraming     // Content-Length and Transfer-Encoding contradict each other or repeat

	NotChallenge      // the target is not under the prefix
	ForeignHost       // a host name that is not configured
	MethodNotAllowed  // a challenge with a method other than GET and HEAD
	UnknownCoding     // a transfer coding other than chunked
	BodyNotAllowed    // a challenge with a body
	UnknownExpect     // an expectation other than 100-continue
	BytesAfterHead    // bytes after the head without an announced body
	Loop              // the request passed this service before: its route leads back here
	LineTooLong       // the request line reaches the limit
	HeadTooLarge      // the fields reach the limit
	HeadTimeout       // the head was not complete in time
	HeadNotTerminated // the client stopped sending within the head
)

// Response is the response to a fault: status line, body and, for some faults, one field
// with the CRLF before it. It repeats nothing that the client sent.
type Response struct {
	Status    int
	Phrase    string // RFC 9110 section 15, RFC 6585 section 5
	Text      string
	Field     string
	Rejection report.Rejection // how the fault is counted
}

// Response returns the response to a fault other than None.
func (f Fault) Response() Response {
	const badRequest = "Bad Request"
	return [...]Response{
		BadRequestLine: {400, badRequest, "malformed request line", "", report.BadRequest},
		BadLineEnd:     {400, badRequest, "malformed line end", "", report.BadRequest},
		UnknownVersion: {505, "HTTP Version Not Supported", "HTTP version not supported", "", report.BadRequest},
		BadField:       {400, badRequest, "malformed field", "", report.BadRequest},
		FoldedField:    {400, badRequest, "folded field", "", report.BadRequest},
		TooManyFields:  {431, "Request Header Fields Too Large", "too many fields", "", report.TooLarge},
		BadHost:        {400, badRequest, "malformed Host", "", report.BadRequest},
		MissingHost:    {400, badRequest, "missing Host", "", report.BadRequest},
		RepeatedHost:   {400, badRequest, "repeated Host", "", report.BadRequest},
		BadLength:      {400, badRequest, "malformed Content-Length", "", report.BadRequest},
		BadFraming:     {400, badRequest, "contradictory message framing", "", report.BadRequest},

		NotChallenge: {400, badRequest, OnlyChallenges, "", report.NotChallenge},
		ForeignHost:  {400, badRequest, OnlyChallenges, "", report.ForeignHost},
		// RFC 9110 section 15.5.6
		MethodNotAllowed: {
			405, "Method Not Allowed", "only GET and HEAD are allowed", "\r\nAllow: GET, HEAD",
			report.BadMethod,
		},
		UnknownCoding:  {501, "Not Implemented", "unknown transfer coding", "", report.BadRequest},
		BodyNotAllowed: {413, "Content Too Large", "a challenge request has no body", "", report.BadRequest},
		UnknownExpect:  {417, "Expectation Failed", "unknown expectation", "", report.BadRequest},
		BytesAfterHead: {400, badRequest, "unexpected bytes after the request head", "", report.BadRequest},
		// RFC 9209 section 2.3, proxy_loop_detected. 508 is WebDAV's, for a loop among
		// resources (RFC 5842 section 7.2). With the field, the first proxy on the route,
		// perhaps this one, can report why there is no response.
		Loop: {
			502, "Bad Gateway", "the route of this host name leads back to this proxy",
			"\r\nProxy-Status: " + httpfield.LoopDetected, report.Loop,
		},
		LineTooLong:       {414, "URI Too Long", "request line too long", "", report.TooLarge},
		HeadTooLarge:      {431, "Request Header Fields Too Large", "request head too large", "", report.TooLarge},
		HeadTimeout:       {408, "Request Timeout", "request head not received in time", "", report.HeadTimeout},
		HeadNotTerminated: {400, badRequest, "incomplete request head", "", report.ClientGone},
	}[f]
}

// String returns the body of the response, for tests and messages.
func (f Fault) String() string { return f.Response().Text }
