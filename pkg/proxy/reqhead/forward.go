// SPDX-License-Identifier: Apache-2.0

package reqhead

import (
	"bytes"
	"net/netip"

	"github.com/http01-proxyd/http01-proxyd/internal/httpfield"
)

// Append appends the head that is forwarded for this request. It contains the
// validated method and target, the canonical Host, the forwarded fields of the
// client in their order, and the fields of a proxy. vip is the destination address
// of the client. It replaces the Host that an HTTP/1.0 request may lack (RFC 9112
// section 3.3).
//
// Append drops the body's framing, because no body follows a head that Validate accepts. Call
// Append only for such a head.
func (r *Request) Append(dst []byte, client, vip netip.Addr) []byte {
	dst = append(dst, r.Method()...)
	dst = append(dst, ' ')
	dst = append(dst, r.Target()...)
	dst = append(dst, " HTTP/1.1\r\nHost: "...)
	if r.host.length > 0 {
		dst = append(dst, r.Host()...)
	} else {
		dst = appendHost(dst, vip)
	}
	dst = append(dst, "\r\n"...)
	dst = r.appendFields(dst)
	dst = append(dst, "X-Forwarded-For: "...)
	dst = client.AppendTo(dst)
	if r.host.length > 0 {
		dst = append(dst, "\r\nX-Forwarded-Host: "...)
		dst = append(dst, r.Host()...)
	}
	dst = append(dst, "\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Port: 80\r\nForwarded: for="...)
	dst = appendNode(dst, client)
	if r.host.length > 0 {
		dst = append(dst, ";host="...)
		dst = appendValue(dst, r.Host())
	}
	dst = httpfield.AppendVia(append(dst, ";proto=http\r\n"...), r.minor)
	return append(dst, "\r\n"...)
}

// appendFields appends the forwarded fields of the client, without those that its
// Connection fields name (RFC 9110 section 7.6.1).
func (r *Request) appendFields(dst []byte) []byte {
	lines := r.buf[r.fields.from:r.fields.to]
	for rest := lines; len(rest) > 0; {
		var name, value []byte
		name, value, rest = httpfield.Next(rest)
		if k := fieldKindOf(name); k != forwarded && k != via {
			continue
		}
		if r.connectionNamesFields && httpfield.NamedByConnection(lines, name) {
			continue
		}
		dst = append(dst, name...)
		dst = append(dst, ": "...)
		dst = append(dst, value...)
		dst = append(dst, "\r\n"...)
	}
	return dst
}

// appendHost appends an address as uri-host.
func appendHost(dst []byte, addr netip.Addr) []byte {
	if addr.Is4() {
		return addr.AppendTo(dst)
	}
	return append(addr.AppendTo(append(dst, '[')), ']')
}

// appendNode appends an address as RFC 7239 section 6 writes it.
func appendNode(dst []byte, addr netip.Addr) []byte {
	if addr.Is4() {
		return addr.AppendTo(dst)
	}
	return append(appendHost(append(dst, '"'), addr), '"')
}

// appendValue appends a parameter of Forwarded. A value that is not a token is
// quoted (RFC 7239 section 4), because a colon or a bracket is not allowed outside
// of quotes. A canonical Host contains nothing that needs escaping within the
// quotes.
func appendValue(dst, value []byte) []byte {
	if bytes.IndexByte(value, ':') < 0 {
		return append(dst, value...)
	}
	return append(append(append(dst, '"'), value...), '"')
}
