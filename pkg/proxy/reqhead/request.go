// SPDX-License-Identifier: Apache-2.0

package reqhead

import (
	"bytes"

	"github.com/http01-proxyd/http01-proxyd/internal/httpfield"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
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
	minor          byte // 0 for HTTP/1.0, 1 for HTTP/1.1
	isChallenge    bool

	host      hostname
	hostCount int

	contentLengths, transferCodings int
	hasBody, chunked                bool
	badExpect                       bool
	connectionNamesFields           bool // a Connection field names fields
	viaNamesService                 bool // the request passed this service before
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
			fault = r.parseRequestLine(buf[:to])
			r.fields.from = r.lines.Consumed()
		case from == to:
			r.fields.to = from
			return r.lines.Consumed(), r.checkComplete()
		default:
			fault = r.parseField(buf[from:to])
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

func (r *Request) parseRequestLine(line []byte) Fault {
	sp := httpfield.TokenLength(line)
	end := len(line) - len(" HTTP/1.1")
	if sp == 0 || end <= sp+1 || line[sp] != ' ' {
		return BadRequestLine
	}
	r.method, r.target = span{0, sp}, span{sp + 1, end}
	target, version := line[sp+1:end], line[end:]
	if r.isChallenge = underPrefix(target); !r.isChallenge && bytes.ContainsAny(target, " \r") {
		return BadRequestLine
	}
	switch { // RFC 9112 section 2.3
	case string(version) == " HTTP/1.1":
		r.minor = 1
	case string(version) == " HTTP/1.0":
	case string(version[:6]) == " HTTP/" && httpfield.IsDigit(version[6]) && version[7] == '.' &&
		httpfield.IsDigit(version[8]):
		return UnknownVersion
	default:
		return BadRequestLine
	}
	return None
}

func (r *Request) parseField(line []byte) Fault {
	if r.fieldCount++; r.fieldCount > MaxFields {
		return TooManyFields
	}
	name, value, problem := httpfield.Split(line)
	if problem != httpfield.NoFault {
		return [...]Fault{httpfield.Malformed: BadField, httpfield.Folded: FoldedField, httpfield.BareCR: BadLineEnd}[problem]
	}
	switch fieldKindOf(name) {
	case host:
		if r.hostCount++; r.hostCount == 1 && !r.host.set(value) {
			return BadHost
		}
	case contentLength:
		if r.contentLengths++; !httpfield.IsDigits(value) {
			return BadLength
		}
		r.hasBody = r.hasBody || len(bytes.TrimLeft(value, "0")) > 0
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
		// RFC 9110 section 10.1.1: the expectation of an HTTP/1.0 client is ignored, and
		// 100-continue without a body changes nothing.
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

// IsHead reports whether the method is HEAD, whose response ends after its head.
func (r *Request) IsHead() bool { return string(r.Method()) == "HEAD" }

// IsTest reports whether the request is a test request of another host or of this one.
func (r *Request) IsTest() bool {
	return string(r.Target()) == report.TestPath && string(r.Method()) == "GET"
}

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

// Host returns the Host field in canonical form, with the port unless it is 80. It
// is empty if there was no Host.
func (r *Request) Host() []byte { return r.host.text[:r.host.length] }

// Hostname returns Host without the port. An IPv6 address keeps its brackets.
func (r *Request) Hostname() []byte { return r.host.text[:r.host.nameLength] }

type fieldKind uint8

const (
	dropped   fieldKind = iota // every field that is not in fieldKinds
	forwarded                  // forwarded unchanged, unless Connection names it
	via                        // forwarded too; also shows whether the request passed this service
	host
	connection
	contentLength
	transferEncoding
	expect
)

// fieldKinds lists the names of fields, in lower case, by their length. It forwards fields on
// which the response to a challenge may depend (RFC 9110, RFC 9111), fields that identify the
// client, and fields that connect logs (W3C Trace Context). No validator and no self-check
// sends more.
//
//nolint:gochecknoglobals // a constant
var fieldKinds = [...][]struct {
	name string
	kind fieldKind
}{
	3:  {{"via", via}},
	4:  {{"host", host}, {"from", forwarded}},
	5:  {{"range", forwarded}},
	6:  {{"accept", forwarded}, {"expect", expect}, {"pragma", forwarded}},
	7:  {{"referer", forwarded}},
	8:  {{"if-match", forwarded}, {"if-range", forwarded}},
	10: {{"user-agent", forwarded}, {"connection", connection}, {"tracestate", forwarded}},
	11: {{"traceparent", forwarded}},
	13: {{"cache-control", forwarded}, {"if-none-match", forwarded}},
	14: {{"content-length", contentLength}},
	15: {{"accept-encoding", forwarded}, {"accept-language", forwarded}},
	17: {{"transfer-encoding", transferEncoding}, {"if-modified-since", forwarded}},
	19: {{"if-unmodified-since", forwarded}},
}

// fieldKindOf classifies a field by its name.
func fieldKindOf(name []byte) fieldKind {
	if len(name) < len(fieldKinds) {
		for i := range fieldKinds[len(name)] {
			if f := &fieldKinds[len(name)][i]; httpfield.EqualFold(name, f.name) {
				return f.kind
			}
		}
	}
	return dropped
}
