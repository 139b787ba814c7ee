// SPDX-License-Identifier: Apache-2.0

package server

import (
	"strconv"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/reqhead"
)

// appendResponse appends a response of this proxy.
func appendResponse(b []byte, r reqhead.Response, now time.Time, isHead bool) []byte {
	b = append(b, "HTTP/1.1 "...)
	b = strconv.AppendInt(b, int64(r.Status), 10)
	b = append(b, ' ')
	b = append(b, r.Phrase...)
	// RFC 9110 section 6.6.1: a server with a clock sends the time.
	b = append(b, "\r\nDate: "...)
	b = now.UTC().AppendFormat(b, "Mon, 02 Jan 2006 15:04:05 GMT")
	b = append(b, "\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: "...)
	b = strconv.AppendInt(b, int64(len(r.Text)), 10)
	b = append(b, r.Field...)
	// RFC 9110 section 15.5: caches may store some of these responses by default.
	b = append(b, "\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"...)
	if !isHead {
		b = append(b, r.Text...)
	}
	return b
}
