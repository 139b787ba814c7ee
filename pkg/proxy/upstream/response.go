// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/http01-proxyd/http01-proxyd/internal/httpfield"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
)

const (
	maxResponseHead = 16 << 10
	maxFields       = 128
	maxInterim      = 8 // 1xx responses before the final one

	// maxBody is far more than a CA reads. A key authorisation is a token, a dot and 43
	// characters (RFC 8555 section 8.1), of which boulder reads 128 bytes (va/http.go). The
	// error pages of routers are a few KiB long.
	maxBody = 64 << 10
)

// ErrTooLarge is a response that is longer than any key authorisation, or consists of too many
// chunks. Nothing of it is relayed.
var ErrTooLarge = fmt.Errorf("%w", cause.Details{Reason: cause.TooLarge})

// errMalformed is wrapped by every error about the bytes of a response.
var errMalformed = errors.New("malformed response")

// Malformed returns the error of a response that is not HTTP, or not framed as it must be.
func Malformed(reason cause.Reason) error {
	return fmt.Errorf("%w: %w", errMalformed, cause.Details{Reason: reason})
}

// framing is how the end of a body is determined (RFC 9112 section 6.3).
type framing uint8

const (
	noBody framing = iota
	byLength
	byChunks
	untilClose
)

type span struct{ from, to int }

// response is the head of one response in the caller's buffer. The zero value is ready
// for parse.
type response struct {
	buf   []byte
	lines httpfield.Lines

	minor      byte
	status     int
	reason     span
	fields     span
	fieldCount int

	contentLengths, transferCodings int
	bodyLength                      int64
	chunked                         bool
	hasConnection                   bool // there is a Connection field
	connectionClose                 bool

	locations      int
	redirectTarget cause.Details // destination of a redirect that is not followed
	loopDetected   bool          // the response of a proxy of this service that detected a loop: for the diagnosis only
}

// parse continues with the head at the beginning of buf. It returns the length of a
// complete head, and 0 if more bytes are needed.
func (a *response) parse(buf []byte) (n int, err error) {
	a.buf = buf
	for {
		from, to, found, ok := a.lines.Next(buf)
		switch {
		case !ok:
			err = Malformed(cause.BadLine)
		case !found:
			return 0, a.checkPartialLine()
		case a.fields.from == 0:
			err = a.parseStatusLine(span{from, to})
			a.fields = span{a.lines.Consumed(), a.lines.Consumed()}
		case from == to:
			return a.lines.Consumed(), nil
		default:
			err = a.parseField(buf[from:to])
			a.fields.to = a.lines.Consumed()
		}
		if err != nil {
			return 0, err
		}
	}
}

// checkPartialLine detects a peer that does not send HTTP/1.x, without waiting for
// a line.
func (a *response) checkPartialLine() error {
	const version = "HTTP/1."
	n := min(len(a.buf), len(version))
	if a.fields.from == 0 && string(a.buf[:n]) != version[:n] {
		return Malformed(cause.Malformed)
	}
	return nil
}

// parseStatusLine parses a status line (RFC 9112 section 4). A missing space before
// an empty reason is common and harmless.
func (a *response) parseStatusLine(at span) error {
	line := a.buf[at.from:at.to]
	const least = len("HTTP/1.1 200")
	if len(line) < least || string(line[:7]) != "HTTP/1." || line[7] != '0' && line[7] != '1' ||
		line[8] != ' ' || !httpfield.IsDigits(line[9:12]) ||
		len(line) > least && line[least] != ' ' || !httpfield.IsText(line[least:]) {
		return Malformed(cause.BadLine)
	}
	a.minor = line[7] - '0'
	a.status = int(line[9]-'0')*100 + int(line[10]-'0')*10 + int(line[11]-'0')
	if a.status < 100 || a.status > 599 {
		return Malformed(cause.BadLine)
	}
	a.reason = span{min(at.from+least+1, at.to), at.to}
	return nil
}

// maxKnownName is the length of the longest field name that is handled here.
const maxKnownName = len("proxy-authenticate")

func (a *response) parseField(line []byte) error {
	if a.fieldCount++; a.fieldCount > maxFields {
		return Malformed(cause.HeadTooLong)
	}
	name, value, problem := httpfield.Split(line)
	if problem != httpfield.NoFault {
		return Malformed(cause.BadLine)
	}
	var low [maxKnownName]byte
	switch string(httpfield.ToLower(low[:], name)) {
	case "trailer":
		if announcesFraming(value) {
			return Malformed(cause.Framing)
		}
	case "location":
		a.locations++
	case "connection":
		a.hasConnection = true
		a.connectionClose = a.connectionClose || httpfield.ListContains(value, []byte("close"))
	case "proxy-status":
		a.loopDetected = a.loopDetected || httpfield.ListContains(value, []byte(httpfield.LoopDetected))
	case "content-length":
		return a.parseContentLength(value)
	case "transfer-encoding":
		a.transferCodings++
		a.chunked = httpfield.EqualFold(value, "chunked")
	}
	return nil
}

func (a *response) parseContentLength(value []byte) (err error) {
	a.contentLengths++
	a.bodyLength, err = strconv.ParseInt(string(value), 10, 64)
	if err != nil || !httpfield.IsDigits(value) {
		return Malformed(cause.Framing)
	}
	return nil
}

// announcesFraming reports whether a Trailer field announces a field that a trailer
// must not contain (RFC 9110 section 6.5.1).
func announcesFraming(list []byte) bool {
	return slices.ContainsFunc([]string{"content-length", "transfer-encoding", "trailer"}, func(name string) bool {
		return httpfield.ListContains(list, []byte(name))
	})
}

// bodyFraming returns how the body ends. toHead means that the request was HEAD. A
// body that announces too large a size is rejected before the client gets a byte.
func (a *response) bodyFraming(toHead bool) (framing, error) {
	switch {
	case a.contentLengths+a.transferCodings > 1, a.transferCodings > 0 && (!a.chunked || a.minor == 0):
		return noBody, Malformed(cause.Framing)
	case toHead, a.status == 204, a.status == 304:
		return noBody, nil
	case a.transferCodings > 0:
		return byChunks, nil
	case a.bodyLength > maxBody:
		return noBody, ErrTooLarge
	case a.contentLengths > 0:
		return byLength, nil
	default:
		return untilClose, nil
	}
}

// appendHead appends the head for the client: the status line, the end-to-end
// fields in their order, and Via.
func (a *response) appendHead(dst []byte) []byte {
	dst = append(dst, "HTTP/1.1 "...)
	dst = strconv.AppendInt(dst, int64(a.status), 10)
	dst = append(dst, ' ')
	dst = append(dst, a.buf[a.reason.from:a.reason.to]...)
	dst = append(dst, "\r\n"...)
	lines := a.buf[a.fields.from:a.fields.to]
	for rest := lines; len(rest) > 0; {
		var name, value []byte
		name, value, rest = httpfield.Next(rest)
		if !a.isEndToEnd(name, lines) {
			continue
		}
		dst = append(dst, name...)
		dst = append(dst, ": "...)
		dst = append(dst, value...)
		dst = append(dst, "\r\n"...)
	}
	dst = httpfield.AppendVia(dst, a.minor)
	return append(dst, "Connection: close\r\n\r\n"...)
}

// isEndToEnd reports whether a field, one of lines, is end-to-end (RFC 9110 section
// 7.6.1).
func (a *response) isEndToEnd(name, lines []byte) bool {
	var low [maxKnownName]byte
	switch string(httpfield.ToLower(low[:], name)) {
	case "connection", "keep-alive", "proxy-authenticate", "proxy-connection", "te", "trailer",
		"transfer-encoding", "upgrade":
		return false
	case "content-length":
		// Whatever Connection contains, Content-Length frames the body. A 204 carries none (RFC
		// 9110 section 8.6).
		return a.status != 204
	default:
		return !a.hasConnection || !httpfield.NamedByConnection(lines, name)
	}
}
