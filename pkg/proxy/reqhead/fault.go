// SPDX-License-Identifier: Apache-2.0

package reqhead

// OnlyChallenges is the response to every request that is not a challenge. Its bytes
// are part of the interface of the service.
const OnlyChallenges = "Only /.well-known/acme-challenge/* is allowed"

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
	Loop              // the request has passed this service before: its route leads back here
	LineTooLong       // the request line reaches the limit
	HeadTooLarge      // the fields reach the limit
	HeadTimeout       // the head was not complete in time
	HeadNotTerminated // the client stopped sending within the head
)

// Status returns the status code of the response to a fault, and 0 for None.
func (f Fault) Status() int {
	switch f {
	case None:
		return 0
	case MethodNotAllowed:
		return 405
	case HeadTimeout:
		return 408
	case BodyNotAllowed:
		return 413
	case LineTooLong:
		return 414
	case UnknownExpect:
		return 417
	case TooManyFields, HeadTooLarge:
		return 431
	case UnknownCoding:
		return 501
	case Loop:
		// RFC 9209 section 2.3, proxy_loop_detected. 508 is WebDAV's, for a loop
		// among resources (RFC 5842 section 7.2).
		return 502
	case UnknownVersion:
		return 505
	default:
		return 400
	}
}

// String returns the line of the response to a fault. It repeats nothing that the
// client sent.
func (f Fault) String() string {
	switch f {
	case None:
		return "none"
	case BadRequestLine:
		return "malformed request line"
	case BadLineEnd:
		return "malformed line end"
	case UnknownVersion:
		return "HTTP version not supported"
	case BadField:
		return "malformed field"
	case FoldedField:
		return "folded field"
	case TooManyFields:
		return "too many fields"
	case BadHost:
		return "malformed Host"
	case MissingHost:
		return "missing Host"
	case RepeatedHost:
		return "repeated Host"
	case BadLength:
		return "malformed Content-Length"
	case BadFraming:
		return "contradictory message framing"
	case NotChallenge, ForeignHost:
		return OnlyChallenges
	case MethodNotAllowed:
		return "only GET and HEAD are allowed"
	case UnknownCoding:
		return "unknown transfer coding"
	case BodyNotAllowed:
		return "a challenge request has no body"
	case UnknownExpect:
		return "unknown expectation"
	case BytesAfterHead:
		return "unexpected bytes after the request head"
	case Loop:
		return "the route of this host name leads back to this proxy"
	case LineTooLong:
		return "request line too long"
	case HeadTooLarge:
		return "request head too large"
	case HeadTimeout:
		return "request head not received in time"
	case HeadNotTerminated:
		return "incomplete request head"
	default:
		return "bad request"
	}
}
