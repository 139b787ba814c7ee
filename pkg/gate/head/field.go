// SPDX-License-Identifier: Apache-2.0

package head

import (
	"bytes"
	"encoding/binary"
)

// kind is what a field means to an intermediary.
type kind uint8

const (
	endToEnd kind = iota // passed on
	hopByHop             // ends here (RFC 9110 section 7.6.1)
	ours                 // what the client says about itself on behalf of proxies: replaced
	host
	connection
	contentLength
	transferEncoding
	expect
)

// kindOf classifies a field by its name, which is not empty. First letter and
// length leave one candidate each.
func kindOf(name []byte) kind {
	var want string
	k := hopByHop
	switch int(lower(name[0]))<<8 | len(name) {
	case 't'<<8 | len("te"):
		want = "te"
	case 'h'<<8 | len("host"):
		want, k = "host", host
	case 'e'<<8 | len("expect"):
		want, k = "expect", expect
	case 't'<<8 | len("trailer"):
		want = "trailer"
	case 'u'<<8 | len("upgrade"):
		want = "upgrade"
	case 'f'<<8 | len("forwarded"):
		want, k = "forwarded", ours
	case 'x'<<8 | len("x-real-ip"):
		want, k = "x-real-ip", ours
	case 'c'<<8 | len("connection"):
		want, k = "connection", connection
	case 'k'<<8 | len("keep-alive"):
		want = "keep-alive"
	case 'c'<<8 | len("content-length"):
		want, k = "content-length", contentLength
	case 'h'<<8 | len("http2-settings"):
		want = "http2-settings"
	case 'p'<<8 | len("proxy-connection"):
		want = "proxy-connection"
	case 't'<<8 | len("transfer-encoding"):
		want, k = "transfer-encoding", transferEncoding
	case 'p'<<8 | len("proxy-authenticate"):
		want = "proxy-authenticate"
	case 'p'<<8 | len("proxy-authorization"):
		want = "proxy-authorization"
	}
	switch {
	case want != "" && equalFold(name, want):
		return k
	case lower(name[0]) == 'x' && hasPrefixFold(name, "x-forwarded"):
		return ours
	default:
		return endToEnd
	}
}

// splitField checks one field line by RFC 9112 section 5 and splits it.
func splitField(line []byte) (name, value []byte, fault Fault) {
	colon := 0
	for colon < len(line) && isToken(line[colon]) {
		colon++
	}
	switch {
	case colon == 0 && (line[0] == ' ' || line[0] == '\t'):
		return nil, nil, FoldedField
	case colon == 0 || colon == len(line) || line[colon] != ':':
		// White space before the colon has been used to hide a field from one of
		// two readers (section 5.1).
		return nil, nil, BadField
	}
	value = line[colon+1:]
	if fault = checkValue(value); fault != None {
		return nil, nil, fault
	}
	return line[:colon], trim(value), None
}

// checkValue finds what a value may not hold, eight bytes at a time as long as
// there is not even a tab.
func checkValue(value []byte) Fault {
	for len(value) >= 8 && !hasControl(binary.LittleEndian.Uint64(value)) {
		value = value[8:]
	}
	for _, c := range value {
		switch {
		case isFieldValue(c):
		case c == '\r':
			return BadLineEnd
		default:
			return BadField
		}
	}
	return None
}

// hasControl reports whether one of the eight bytes of x is below 0x20 or is
// 0x7f. (x-n)&^x has a byte's high bit set only if a byte is below n.
func hasControl(x uint64) bool {
	const ones = 0x0101010101010101
	del := x ^ ones*0x7f
	return ((x-ones*0x20)&^x|(del-ones)&^del)&(ones*0x80) != 0
}

// cutField splits a line that splitField has accepted.
func cutField(line []byte) (name, value []byte) {
	name, value, _ = bytes.Cut(line, []byte{':'})
	return name, trim(value)
}

// listHas reports whether the comma-separated list names token.
func listHas(list, token []byte) bool {
	for len(list) > 0 {
		var item []byte
		item, list, _ = bytes.Cut(list, []byte{','})
		if bytes.EqualFold(trim(item), token) {
			return true
		}
	}
	return false
}
