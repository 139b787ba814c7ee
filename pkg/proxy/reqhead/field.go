// SPDX-License-Identifier: Apache-2.0

package reqhead

import "github.com/http01-proxyd/http01-proxyd/internal/httpfield"

// fieldKind is what a field of a request means here.
type fieldKind uint8

const (
	dropped   fieldKind = iota // everything that is not named below
	forwarded                  // goes on as it came, unless Connection names it
	via                        // so does this one, and it tells where the request has been
	host
	connection
	contentLength
	transferEncoding
	expect
)

// maxKnownName is the longest that fieldKindOf knows.
const maxKnownName = len("if-unmodified-since")

// fieldKindOf classifies a field by its name. The names that are passed on are what
// the answer to a challenge may depend on by RFC 9110 and RFC 9111, what says
// who asks, and what leads from one log to the next (W3C Trace Context); no
// validator and no self check sends more.
func fieldKindOf(name []byte) fieldKind {
	var low [maxKnownName]byte
	switch string(httpfield.ToLower(low[:], name)) {
	case "accept", "accept-encoding", "accept-language",
		"cache-control", "pragma",
		"if-match", "if-modified-since", "if-none-match", "if-range", "if-unmodified-since", "range",
		"from", "referer", "user-agent",
		"traceparent", "tracestate":
		return forwarded
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
func faultOf(p httpfield.Fault) Fault {
	switch p {
	case httpfield.NoFault:
		return None
	case httpfield.Folded:
		return FoldedField
	case httpfield.BareCR:
		return BadLineEnd
	default:
		return BadField
	}
}
