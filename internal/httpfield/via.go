// SPDX-License-Identifier: Apache-2.0

package httpfield

import "bytes"

const (
	// ServiceName is the name of this service in Via (RFC 9110 section 7.6.3).
	ServiceName = "http01-proxyd"

	// LoopDetected is the Proxy-Status (RFC 9209) of a request that passed this
	// service before. The field travels back to the proxy that received the request
	// first.
	LoopDetected = ServiceName + "; error=proxy_loop_detected"
)

// AppendVia appends a Via line, with its CRLF, for a message that was received as
// HTTP/1.minor.
func AppendVia(dst []byte, minor byte) []byte {
	dst = append(dst, "Via: 1."...)
	dst = append(dst, '0'+minor)
	return append(dst, " "+ServiceName+"\r\n"...)
}

// ViaNamesService reports whether a Via field names this service. A comma within a
// comment also separates members. A comment can therefore look like a member, but
// no member can be hidden.
func ViaNamesService(via []byte) bool {
	for len(via) > 0 {
		var member []byte
		member, via, _ = bytes.Cut(via, []byte{','})
		member = Trim(member)
		// received-protocol RWS received-by [ RWS comment ]
		blank := bytes.IndexAny(member, " \t")
		if blank < 0 {
			continue
		}
		by := Trim(member[blank:])
		if end := bytes.IndexAny(by, " \t"); end >= 0 {
			by = by[:end]
		}
		if EqualFold(by, ServiceName) {
			return true
		}
	}
	return false
}
