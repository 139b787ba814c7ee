// SPDX-License-Identifier: Apache-2.0

package reqhead

import "github.com/http01-proxyd/http01-proxyd/internal/httpfield"

// fieldKind is how a field of a request is handled.
type fieldKind uint8

const (
	dropped   fieldKind = iota // every field that is not listed below
	forwarded                  // forwarded unchanged, unless Connection names it
	via                        // forwarded too; also shows whether the request has passed this service
	host
	connection
	contentLength
	transferEncoding
	expect
)

// maxKnownName is the length of the longest name in fieldKindOf.
const maxKnownName = len("if-unmodified-since")

// fieldKindOf classifies a field by its name. The forwarded fields are those on
// which the response to a challenge may depend (RFC 9110, RFC 9111), those that
// identify the client, and those that connect logs (W3C Trace Context). No
// validator and no self-check sends more.
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

// faultOf converts the fault of a field line.
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
