// SPDX-License-Identifier: Apache-2.0

package reqhead

import "github.com/http01-proxyd/http01-proxyd/internal/httpfield"

// Prefix is the path of HTTP-01 challenges (RFC 8555 section 8.3).
const Prefix = "/.well-known/acme-challenge/"

// underPrefix reports whether every parser finds target below Prefix. The target
// must be absolute-path [ "?" query ] by the grammar of RFC 3986. It must stay
// below Prefix when a router or a server normalises it, decodes it once or twice,
// or removes path parameters.
func underPrefix(target []byte) bool {
	if len(target) < len(Prefix) || string(target[:len(Prefix)]) != Prefix {
		return false
	}
	segment := len(Prefix)
	for i := segment; ; i++ {
		if i += httpfield.PathLength(target[i:]); i == len(target) {
			return !isDotSegment(target[segment:])
		}
		switch target[i] {
		case '?':
			return !isDotSegment(target[segment:i]) && isQuery(target[i+1:])
		case '/':
			// Some parsers merge "//" or "///" into one slash, others read it as an
			// authority.
			if i == segment || isDotSegment(target[segment:i]) {
				return false
			}
			segment = i + 1
		case '%':
			if !isSafeEscape(target[i:]) {
				return false
			}
			i += 2
		default:
			return false
		}
	}
}

// isDotSegment reports whether a segment is a dot segment (RFC 3986 section 3.3),
// also with parameters. Servers that cut parameters first read "..;x" as "..".
func isDotSegment(segment []byte) bool {
	for i, c := range segment {
		switch {
		case c == ';':
			return i > 0
		case c != '.' || i == 2:
			return false
		}
	}
	return len(segment) > 0
}

// isSafeEscape reports whether b begins with a percent-encoding of a visible ASCII
// character without a meaning in a path. A server that decodes first and splits
// later reads an encoded dot or slash as a dot segment or a separator. An encoded
// percent sign starts a second round of decoding. Octets from 0x80 on may be an
// overlong form of these.
func isSafeEscape(b []byte) bool {
	switch c, ok := unescape(b); c {
	case '.', '/', '\\', '%', ';', '?', '#':
		return false
	default:
		return ok && c >= ' ' && c < 0x7f
	}
}

// unescape returns the octet of the percent-encoding at the beginning of b.
func unescape(b []byte) (octet byte, ok bool) {
	if len(b) < 3 {
		return 0, false
	}
	high, ok1 := httpfield.Hex(b[1])
	low, ok2 := httpfield.Hex(b[2])
	return high<<4 | low, ok1 && ok2
}

// isQuery follows RFC 3986 section 3.4. A query never changes the path, so any
// encoded octet is accepted.
func isQuery(b []byte) bool {
	for i := 0; ; i++ {
		if i += httpfield.PathLength(b[i:]); i == len(b) {
			return true
		}
		switch b[i] {
		case '/', '?':
		case '%':
			if _, ok := unescape(b[i:]); !ok {
				return false
			}
			i += 2
		default:
			return false
		}
	}
}
