// SPDX-License-Identifier: Apache-2.0

package reqhead

import "github.com/http01-proxyd/http01-proxyd/internal/httpfield"

// kind is what a field of a request means here.
type kind uint8

const (
	dropped kind = iota // everything that is not named below
	passed              // goes on as it came, unless Connection names it
	via                 // so does this one, and it tells where the request has been
	host
	connection
	contentLength
	transferEncoding
	expect
)

// longestName is the longest that kindOf knows.
const longestName = len("if-unmodified-since")

// kindOf classifies a field by its name. The names that are passed on are what
// the answer to a challenge may depend on by RFC 9110 and RFC 9111, what says
// who asks, and what leads from one log to the next (W3C Trace Context); no
// validator and no self check sends more.
func kindOf(name []byte) kind {
	var low [longestName]byte
	switch string(httpfield.Fold(low[:], name)) {
	case "accept", "accept-encoding", "accept-language",
		"cache-control", "pragma",
		"if-match", "if-modified-since", "if-none-match", "if-range", "if-unmodified-since", "range",
		"from", "referer", "user-agent",
		"traceparent", "tracestate":
		return passed
	case "via":
		return via
	case "host":
		return host
	case "connection":
		return connection
	case "content-length":
		return contentLength
	case "transfer-encoding":
		return transferEncoding
	case "expect":
		return expect
	default:
		return dropped
	}
}

// faultOf is the verdict on a field line with a problem.
func faultOf(p httpfield.Problem) Fault {
	switch p {
	case httpfield.None:
		return None
	case httpfield.Folded:
		return FoldedField
	case httpfield.BareCR:
		return BadLineEnd
	default:
		return BadField
	}
}
