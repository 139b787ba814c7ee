// SPDX-License-Identifier: Apache-2.0

package reqhead

import (
	"bytes"
	"net/netip"
	"strconv"

	"github.com/http01-proxyd/http01-proxyd/internal/httpfield"
)

const (
	maxName  = 253 // a DNS name in text, without its trailing dot (RFC 1035 section 2.3.4)
	maxLabel = 63
	maxHost  = maxName + len(".:65535")

	defaultPort = 80
)

// hostname is a Host field in canonical form: lower case, no trailing dot, an IPv6 address as
// in RFC 5952, no port 80. cert-manager's solver compares Host case-sensitively and routers
// look it up unchanged. Therefore each name must always look the same.
type hostname struct {
	text       [maxHost]byte
	length     int // length with the port
	nameLength int // length without the port
}

// set parses value by RFC 9110 section 7.2 (uri-host [ ":" port ]). Names are
// restricted to the characters of DNS names.
func (h *hostname) set(value []byte) bool {
	if len(value) == 0 || len(value) > maxHost {
		return false
	}
	var rest []byte
	var ok bool
	if value[0] == '[' {
		rest, ok = h.setLiteral(value)
	} else {
		rest, ok = h.setName(value)
	}
	return ok && h.setPort(rest)
}

func (h *hostname) setLiteral(value []byte) (rest []byte, ok bool) {
	end := bytes.IndexByte(value, ']')
	if end < 0 {
		return nil, false
	}
	addr, err := netip.ParseAddr(string(value[1:end]))
	if err != nil || !addr.Is6() || addr.Zone() != "" {
		return nil, false
	}
	h.text[0] = '['
	b := append(addr.AppendTo(h.text[:1]), ']')
	h.nameLength, h.length = len(b), len(b)
	return value[end+1:], true
}

func (h *hostname) setName(value []byte) (rest []byte, ok bool) {
	label, n := 0, 0 // offsets
	for ; n < len(value) && value[n] != ':'; n++ {
		c := value[n]
		h.text[n] = httpfield.LowerByte(c)
		switch {
		case httpfield.IsNameByte(c):
		case c == '.' && n > label && n-label <= maxLabel:
			label = n + 1
		default:
			return nil, false
		}
	}
	if n-label > maxLabel {
		return nil, false
	}
	rest = value[n:]
	if n > 0 && h.text[n-1] == '.' {
		n--
	}
	h.nameLength, h.length = n, n
	return rest, n > 0 && n <= maxName
}

// setPort parses the text after the name: nothing, or ":" and digits, which may be
// missing (RFC 3986 section 3.2.3).
func (h *hostname) setPort(rest []byte) bool {
	digits, hasColon := bytes.CutPrefix(rest, []byte{':'})
	if len(digits) > 5 || !hasColon && len(rest) > 0 {
		return false
	}
	if len(digits) == 0 {
		return true
	}
	port, err := strconv.ParseUint(string(digits), 10, 16)
	if err != nil || port == 0 {
		return false
	}
	if port != defaultPort {
		b := append(h.text[:h.nameLength], ':')
		h.length = len(strconv.AppendUint(b, port, 10))
	}
	return true
}
