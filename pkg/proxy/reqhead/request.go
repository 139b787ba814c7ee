// SPDX-License-Identifier: Apache-2.0

package reqhead

import (
	"bytes"

	"github.com/http01-proxyd/http01-proxyd/internal/httpfield"
)

// MaxFields bounds the number of fields of a head.
const MaxFields = 100

type span struct{ from, to int }

// Request is one request head in the caller's buffer. The zero value is ready for
// Parse. After Reset it is ready for another head. It is not safe for concurrent
// use.
type Request struct {
	buf   []byte
	lines httpfield.Lines

	fields     span // the field lines, without the empty line
	fieldCount int

	method, target span
	minor          byte
	isChallenge    bool

	host      hostname
	hostCount int

	contentLengths, transferCodings int
	hasBody, chunked                bool
	badExpect                       bool
	connectionNamesFields           bool // a Connection field names fields
	viaNamesService                 bool // the request has passed this service before
}

// Reset drops the head and the reference to the buffer.
func (r *Request) Reset() { *r = Request{} }

// Parse continues with the head at the beginning of buf. buf holds the bytes of the
// earlier calls and new bytes after them; it may have moved. Parse returns the
// length of a complete head, and 0 with None if more bytes are needed. A fault is
// final.
//
// The accessors refer to the last buf.
func (r *Request) Parse(buf []byte) (n int, fault Fault) {
	r.buf = buf
	for {
		from, to, found, ok := r.lines.Next(buf)
		switch {
		case !ok:
			fault = BadLineEnd
		case !found:
			return 0, r.checkPartialLine()
		case r.fields.from == 0:
			fault = r.parseRequestLine(span{from, to})
			r.fields = span{r.lines.Consumed(), r.lines.Consumed()}
		case from == to:
			return r.lines.Consumed(), r.checkComplete()
		default:
			fault = r.parseField(buf[from:to])
			r.fields.to = r.lines.Consumed()
		}
		if fault != None {
			return 0, fault
		}
	}
}

// checkPartialLine detects bytes that can never become a request line, such as a
// TLS hello. Such a client may wait for a response without ever sending an LF.
func (r *Request) checkPartialLine() Fault {
	if r.fields.from != 0 {
		return None
	}
	n := httpfield.TokenLength(r.buf)
	if n == len(r.buf) || n > 0 && r.buf[n] == ' ' {
		return None
	}
	return BadRequestLine
}

func (r *Request) parseRequestLine(at span) Fault {
	line := r.buf[at.from:at.to]
	sp := httpfield.TokenLength(line)
	if sp == 0 || sp == len(line) || line[sp] != ' ' {
		return BadRequestLine
	}
	rest := line[sp+1:]
	length := bytes.IndexByte(rest, ' ')
	if length <= 0 || bytes.IndexByte(rest[:length], '\r') >= 0 {
		return BadRequestLine
	}
	r.method = span{at.from, at.from + sp}
	r.target = span{at.from + sp + 1, at.from + sp + 1 + length}
	r.isChallenge = underPrefix(rest[:length])
	return r.parseVersion(rest[length+1:])
}

// parseVersion accepts HTTP/1.0 and HTTP/1.1 (RFC 9112 section 2.3).
func (r *Request) parseVersion(b []byte) Fault {
	if len(b) != len("HTTP/1.1") || string(b[:5]) != "HTTP/" ||
		!httpfield.IsDigit(b[5]) || b[6] != '.' || !httpfield.IsDigit(b[7]) {
		return BadRequestLine
	}
	if b[5] != '1' || b[7] > '1' {
		return UnknownVersion
	}
	r.minor = b[7] - '0'
	return None
}

func (r *Request) parseField(line []byte) Fault {
	if r.fieldCount++; r.fieldCount > MaxFields {
		return TooManyFields
	}
	name, value, problem := httpfield.Split(line)
	if problem != httpfield.NoFault {
		return faultOf(problem)
	}
	switch fieldKindOf(name) {
	case host:
		if r.hostCount++; r.hostCount == 1 && !r.host.set(value) {
			return BadHost
		}
	case contentLength:
		return r.parseContentLength(value)
	case transferEncoding:
		r.transferCodings++
		r.chunked = httpfield.EqualFold(value, "chunked")
	case connection:
		// These two values are by far the most common, and name no forwarded field.
		if !httpfield.EqualFold(value, "close") && !httpfield.EqualFold(value, "keep-alive") {
			r.connectionNamesFields = true
		}
	case expect:
		if !httpfield.EqualFold(value, "100-continue") {
			r.badExpect = true
		}
	case via:
		r.viaNamesService = r.viaNamesService || httpfield.ViaNamesService(value)
	default:
	}
	return None
}

func (r *Request) parseContentLength(value []byte) Fault {
	r.contentLengths++
	if len(value) == 0 {
		return BadLength
	}
	for _, c := range value {
		if !httpfield.IsDigit(c) {
			return BadLength
		}
		if c != '0' {
			r.hasBody = true
		}
	}
	return None
}

func (r *Request) checkComplete() Fault {
	switch {
	case r.hostCount > 1:
		return RepeatedHost
	case r.hostCount == 0 && r.minor > 0:
		return MissingHost
	case r.contentLengths > 1, r.transferCodings > 1, r.transferCodings > 0 && (r.contentLengths > 0 || r.minor == 0):
		return BadFraming
	default:
		return None
	}
}

// Overflow returns the fault of a head that reached the limit before its end.
func (r *Request) Overflow() Fault {
	if r.fields.from == 0 {
		return LineTooLong
	}
	return HeadTooLarge
}

// Validate checks a complete head. None means that the result of Append may be
// forwarded. allows receives the name in Host, as Hostname returns it. surplus is
// the number of bytes after the head.
func (r *Request) Validate(allows func(name []byte) bool, surplus int) Fault {
	switch {
	case !r.isChallenge:
		return NotChallenge
	case !allows(r.Hostname()):
		return ForeignHost
	case !r.IsHead() && string(r.Method()) != "GET":
		return MethodNotAllowed
	case r.transferCodings > 0 && !r.chunked:
		return UnknownCoding
	case r.transferCodings > 0 || r.hasBody:
		return BodyNotAllowed
	case r.badExpect && r.minor > 0:
		// RFC 9110 section 10.1.1: the expectation of an HTTP/1.0 client is
		// ignored, and 100-continue without a body has no effect.
		return UnknownExpect
	case surplus > 0:
		return BytesAfterHead
	case r.viaNamesService:
		return Loop
	default:
		return None
	}
}

// HasBody reports whether the head announces a body.
func (r *Request) HasBody() bool { return r.hasBody || r.transferCodings > 0 }

// Method returns the method as the client sent it.
func (r *Request) Method() []byte { return r.buf[r.method.from:r.method.to] }

// IsHead reports whether the method is HEAD, whose response has no body.
func (r *Request) IsHead() bool { return string(r.Method()) == "HEAD" }

// Target returns the request target as the client sent it.
func (r *Request) Target() []byte { return r.buf[r.target.from:r.target.to] }

// Token returns the path of a challenge after the prefix, and nil for other
// requests.
func (r *Request) Token() []byte {
	if !r.isChallenge {
		return nil
	}
	token, _, _ := bytes.Cut(r.Target()[len(Prefix):], []byte{'?'})
	return token
}

// UserAgent returns the value of the first User-Agent field, or nil.
func (r *Request) UserAgent() []byte {
	return httpfield.Value(r.buf[r.fields.from:r.fields.to], "user-agent")
}

// Minor returns the minor version: 0 for HTTP/1.0, 1 for HTTP/1.1.
func (r *Request) Minor() int { return int(r.minor) }

// Host returns the Host field in canonical form, with the port unless it is 80. It
// is empty if there was no Host.
func (r *Request) Host() []byte { return r.host.text[:r.host.length] }

// Hostname returns Host without the port. An IPv6 address keeps its brackets.
func (r *Request) Hostname() []byte { return r.host.text[:r.host.nameLength] }

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
