// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"bytes"
	"strings"
)

// isToken follows RFC 9110 section 5.6.2.
func isToken(c byte) bool {
	switch {
	case c >= '0' && c <= '9', c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z':
		return true
	default:
		return c > ' ' && c < 0x7f && strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
	}
}

// isText follows field-content of RFC 9110 section 5.5 and reason-phrase of RFC
// 9112 section 4, which are alike.
func isText(b []byte) bool {
	for _, c := range b {
		if c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

func isDigits(b []byte) bool {
	for _, c := range b {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(b) > 0
}

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c + ('a' - 'A')
	}
	return c
}

// hasPrefixFold compares with a prefix in lower case.
func hasPrefixFold(b []byte, prefix string) bool {
	if len(b) < len(prefix) {
		return false
	}
	for i := range len(prefix) {
		if lower(b[i]) != prefix[i] {
			return false
		}
	}
	return true
}

func equalFold(b []byte, text string) bool { return len(b) == len(text) && hasPrefixFold(b, text) }

func trim(b []byte) []byte { return bytes.Trim(b, " \t") }

// splitField checks and splits one field line (RFC 9112 section 5).
func splitField(line []byte) (name, value []byte, ok bool) {
	colon := 0
	for colon < len(line) && isToken(line[colon]) {
		colon++
	}
	if colon == 0 || colon == len(line) || line[colon] != ':' || !isText(line[colon+1:]) {
		return nil, nil, false
	}
	return line[:colon], trim(line[colon+1:]), true
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
