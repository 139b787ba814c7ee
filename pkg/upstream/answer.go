// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
)

const (
	maxAnswerHead = 16 << 10
	maxFields     = 128
	maxInterim    = 8 // 1xx answers before the final one
)

// errMalformed is what every finding about the bytes of an answer wraps.
var errMalformed = errors.New("malformed answer")

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{errMalformed}, args...)...)
}

// framing is how the end of an answer's body is known (RFC 9112 section 6.3).
type framing uint8

const (
	noBody framing = iota
	byLength
	byChunks
	untilClose
)

type span struct{ from, to int }

// answer is the head of one answer in the caller's buffer. The zero value is
// ready for parse.
type answer struct {
	buf        []byte
	seen, line int // as far as searched; begin of the current line

	minor  byte
	status int
	reason span
	fields span
	count  int

	lengths, codings int
	length           int64
	chunked          bool
	connections      bool // has a Connection field
	closes           bool

	html, https bool // a page; a redirect to https: read for the diagnosis only
}

// parse goes on reading the head at the beginning of buf. It returns the head's
// length when it is complete and 0 when more bytes are needed.
func (a *answer) parse(buf []byte) (n int, err error) {
	a.buf = buf
	for {
		lf := bytes.IndexByte(buf[a.seen:], '\n')
		if lf < 0 {
			a.seen = len(buf)
			return 0, a.early()
		}
		lf += a.seen
		if lf == a.line || buf[lf-1] != '\r' {
			return 0, malformed("a line does not end in CRLF")
		}
		line := span{a.line, lf - 1}
		a.seen, a.line = lf+1, lf+1
		switch {
		case a.fields.from == 0:
			err = a.statusLine(line)
			a.fields = span{a.line, a.line}
		case line.from == line.to:
			return a.line, nil
		default:
			err = a.field(buf[line.from:line.to])
			a.fields.to = a.line
		}
		if err != nil {
			return 0, err
		}
	}
}

// early finds a peer that does not speak HTTP/1.x without waiting for a line.
func (a *answer) early() error {
	const version = "HTTP/1."
	n := min(len(a.buf), len(version))
	if a.fields.from == 0 && string(a.buf[:n]) != version[:n] {
		return malformed("it does not begin with HTTP/1.x")
	}
	return nil
}

// statusLine reads RFC 9112 section 4. A missing space before an empty reason
// is common and harmless.
func (a *answer) statusLine(at span) error {
	line := a.buf[at.from:at.to]
	const least = len("HTTP/1.1 200")
	if len(line) < least || string(line[:7]) != "HTTP/1." || line[7] != '0' && line[7] != '1' ||
		line[8] != ' ' || !isDigits(line[9:12]) || len(line) > least && line[least] != ' ' || !isText(line[least:]) {
		return malformed("bad status line")
	}
	a.minor = line[7] - '0'
	a.status = int(line[9]-'0')*100 + int(line[10]-'0')*10 + int(line[11]-'0')
	if a.status < 100 || a.status > 599 {
		return malformed("bad status code %d", a.status)
	}
	a.reason = span{min(at.from+least+1, at.to), at.to}
	return nil
}

func (a *answer) field(line []byte) error {
	if a.count++; a.count > maxFields {
		return malformed("more than %d fields", maxFields)
	}
	name, value, ok := splitField(line)
	if !ok {
		return malformed("bad field line")
	}
	switch len(name) {
	case len("trailer"):
		if equalFold(name, "trailer") && namesFraming(value) {
			return malformed("framing announced in a trailer")
		}
	case len("location"):
		a.https = a.https || equalFold(name, "location") && hasPrefixFold(value, "https://")
	case len("connection"):
		if equalFold(name, "connection") {
			a.connections = true
			a.closes = a.closes || listHas(value, []byte("close"))
		}
	case len("content-type"):
		a.html = a.html || equalFold(name, "content-type") && hasPrefixFold(value, "text/html")
	case len("content-length"):
		if equalFold(name, "content-length") {
			return a.contentLength(value)
		}
	case len("transfer-encoding"):
		if equalFold(name, "transfer-encoding") {
			a.codings++
			a.chunked = equalFold(value, "chunked")
		}
	}
	return nil
}

func (a *answer) contentLength(value []byte) (err error) {
	a.lengths++
	if !isDigits(value) {
		return malformed("bad Content-Length")
	}
	if a.length, err = strconv.ParseInt(string(value), 10, 64); err != nil {
		return malformed("Content-Length out of range")
	}
	return nil
}

// namesFraming reports whether a Trailer field announces what a trailer may not
// be (RFC 9110 section 6.5.1).
func namesFraming(list []byte) bool {
	return listHas(list, []byte("content-length")) || listHas(list, []byte("transfer-encoding")) || listHas(list, []byte("trailer"))
}

// interim reports whether a final answer follows.
func (a *answer) interim() bool { return a.status < 200 }

// frame decides how the body ends. toHead says that the request was HEAD.
func (a *answer) frame(toHead bool) (framing, error) {
	switch {
	case a.lengths > 1:
		return noBody, malformed("repeated Content-Length")
	case a.lengths > 0 && a.codings > 0:
		return noBody, malformed("both Content-Length and Transfer-Encoding")
	case a.codings > 0 && (!a.chunked || a.codings > 1 || a.minor == 0):
		return noBody, malformed("unusable Transfer-Encoding")
	case toHead, a.status == 204, a.status == 304:
		return noBody, nil
	case a.codings > 0:
		return byChunks, nil
	case a.lengths > 0:
		return byLength, nil
	default:
		return untilClose, nil
	}
}

// finding names what an operator wants to know about a well-formed answer.
func (a *answer) finding() Cause {
	switch {
	case a.status == 503 && a.html:
		return NoRoute
	case a.https && a.status >= 300 && a.status < 400:
		return RedirectToHTTPS
	default:
		return ""
	}
}

// appendHead appends the head that the client gets: the status line and the
// end-to-end fields in their order, then Via and the framing of this hop.
// chunked says that the body goes to the client in chunks.
func (a *answer) appendHead(dst []byte, chunked bool) []byte {
	dst = append(dst, "HTTP/1.1 "...)
	dst = strconv.AppendInt(dst, int64(a.status), 10)
	dst = append(dst, ' ')
	dst = append(dst, a.buf[a.reason.from:a.reason.to]...)
	dst = append(dst, "\r\n"...)
	rest := a.buf[a.fields.from:a.fields.to]
	for len(rest) > 0 {
		end := bytes.IndexByte(rest, '\n')
		name, value := cutField(rest[:end-1])
		rest = rest[end+1:]
		if !a.passes(name) {
			continue
		}
		dst = append(dst, name...)
		dst = append(dst, ": "...)
		dst = append(dst, value...)
		dst = append(dst, "\r\n"...)
	}
	if chunked {
		dst = append(dst, "Transfer-Encoding: chunked\r\n"...)
	}
	dst = append(dst, "Via: 1."...)
	dst = append(dst, '0'+a.minor)
	return append(dst, " http01-proxyd\r\nConnection: close\r\n\r\n"...)
}

// passes reports whether a field is end-to-end (RFC 9110 section 7.6.1).
func (a *answer) passes(name []byte) bool {
	switch len(name) {
	case len("te"):
		if equalFold(name, "te") {
			return false
		}
	case len("trailer"):
		if equalFold(name, "trailer") || equalFold(name, "upgrade") {
			return false
		}
	case len("connection"):
		if equalFold(name, "connection") || equalFold(name, "keep-alive") {
			return false
		}
	case len("content-length"):
		if equalFold(name, "content-length") {
			// Whatever Connection says: the body is framed by it. A 204 has none
			// (RFC 9110 section 8.6).
			return a.status != 204
		}
	case len("proxy-connection"):
		if equalFold(name, "proxy-connection") {
			return false
		}
	case len("transfer-encoding"):
		if equalFold(name, "transfer-encoding") {
			return false
		}
	case len("proxy-authenticate"):
		if equalFold(name, "proxy-authenticate") {
			return false
		}
	}
	return !a.connections || !a.connectionNames(name)
}

func (a *answer) connectionNames(field []byte) bool {
	rest := a.buf[a.fields.from:a.fields.to]
	for len(rest) > 0 {
		end := bytes.IndexByte(rest, '\n')
		name, value := cutField(rest[:end-1])
		rest = rest[end+1:]
		if equalFold(name, "connection") && listHas(value, field) {
			return true
		}
	}
	return false
}
