// SPDX-License-Identifier: Apache-2.0

package server

import (
	"strconv"
	"time"

	"github.com/http01-proxyd/http01-proxyd/internal/httpfield"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/reqhead"
)

// refuse answers a request that is not forwarded.
func (c *connection) refuse(f reqhead.Fault, isHead bool) {
	c.writeResponse(f.Status(), f.String(), extraField(f), isHead)
}

// extraField returns the field that only the response to this fault has.
func extraField(f reqhead.Fault) string {
	switch f {
	case reqhead.MethodNotAllowed:
		return "\r\nAllow: GET, HEAD" // RFC 9110 section 15.5.6
	case reqhead.Loop:
		// RFC 9209: the first proxy on the route, perhaps this one, can then report
		// why there is no response.
		return "\r\nProxy-Status: " + httpfield.LoopDetected
	default:
		return ""
	}
}

// writeResponse writes a response of this proxy. extra is empty or one more field with the
// CRLF before it. clientWriter records a failed write.
func (c *connection) writeResponse(code int, text, extra string, isHead bool) {
	now := time.Now()
	b := c.out[:0]
	b = append(b, "HTTP/1.1 "...)
	b = strconv.AppendInt(b, int64(code), 10)
	b = append(b, ' ')
	b = append(b, statusText(code)...)
	// RFC 9110 section 6.6.1: a server with a clock sends the time.
	b = append(b, "\r\nDate: "...)
	b = now.UTC().AppendFormat(b, "Mon, 02 Jan 2006 15:04:05 GMT")
	b = append(b, "\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: "...)
	b = strconv.AppendInt(b, int64(len(text)), 10)
	b = append(b, extra...)
	// RFC 9110 section 15.5: caches may store some of these responses by default.
	b = append(b, "\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"...)
	if !isHead {
		b = append(b, text...)
	}
	c.out = b
	_ = c.tcp.SetWriteDeadline(now.Add(responseWriteTimeout))
	_, _ = c.writer.Write(b)
}

// statusText returns the reason phrase of the codes that this proxy answers with
// (RFC 9110 section 15, RFC 6585 section 5).
func statusText(code int) string {
	switch code {
	case 400:
		return "Bad Request"
	case 405:
		return "Method Not Allowed"
	case 408:
		return "Request Timeout"
	case 413:
		return "Content Too Large"
	case 414:
		return "URI Too Long"
	case 417:
		return "Expectation Failed"
	case 431:
		return "Request Header Fields Too Large"
	case 501:
		return "Not Implemented"
	case 502:
		return "Bad Gateway"
	case 504:
		return "Gateway Timeout"
	case 505:
		return "HTTP Version Not Supported"
	default:
		return ""
	}
}
