// SPDX-License-Identifier: Apache-2.0

package keepalived

import "strings"

const (
	blanks     = " \t"
	whitespace = " \t\f\n\r\v"
)

// decomment removes the comment and the surrounding blanks from one line, as decomment of
// keepalived's lib/parser.c does (2.2.8):
//   - # and ! start a comment outside double quotes.
//   - \# and \! outside quotes are the character itself.
//   - A backslash escapes the next character, so \" neither opens nor closes a quoted string.
//   - A backslash at the end of the line remains, even after a comment: it continues a definition.
//
// Single quotes have no meaning. unterminated reports an open double quote.
func decomment(s string) (text string, unterminated bool) {
	s = strings.TrimLeft(s, blanks)
	var b strings.Builder
	quoted, comment, continued := false, false, false
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '\\' && i+1 == len(s):
			continued = true
			continue
		case c == '\\':
			i++
			if quoted || (s[i] != '#' && s[i] != '!') {
				appendUnlessComment(&b, comment, c)
			}
			c = s[i]
		case comment:
		case c == '"':
			quoted = !quoted
		case !quoted && (c == '#' || c == '!'):
			comment = true
		}
		appendUnlessComment(&b, comment, c)
	}
	text = strings.TrimRight(b.String(), blanks)
	if continued {
		text += `\`
	}
	return text, quoted
}

func appendUnlessComment(b *strings.Builder, comment bool, c byte) {
	if !comment {
		b.WriteByte(c)
	}
}

// splitAtBrace splits a line before its first brace, or after the brace if the line starts
// with it. Each brace becomes a line of its own. rest is empty if there is nothing to split.
// Braces inside double quotes are text, and text after an unclosed double quote is not
// examined (read_line of lib/parser.c).
func splitAtBrace(s string) (head, rest string, at int) {
	at = firstBrace(s)
	if at < 0 {
		return s, "", 0
	}
	if at == 0 {
		at = 1 + len(s[1:]) - len(strings.TrimLeft(s[1:], blanks))
	}
	return strings.TrimRight(s[:at], blanks), strings.TrimRight(s[at:], blanks), at
}

func firstBrace(s string) int {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '{', '}':
			return i
		case '"':
			end := strings.IndexByte(s[i+1:], '"')
			if end < 0 {
				return -1
			}
			i += 1 + end
		}
	}
	return -1
}

// token is one token of a line. offset is its position in the line.
type token struct {
	text   string
	offset int
}

// tokenize splits a line as alloc_strvec of lib/parser.c does: at white space and around
// double-quoted strings, whose quotes are removed. Text after an unclosed quote is dropped.
func tokenize(s string) []token {
	var out []token
	for i := 0; i < len(s); {
		if strings.IndexByte(whitespace, s[i]) >= 0 {
			i++
			continue
		}
		start, end := i, len(s)
		if s[i] == '"' {
			start++
			n := strings.IndexByte(s[start:], '"')
			if n < 0 {
				return out
			}
			end = start + n
			i = end + 1
		} else {
			if n := strings.IndexAny(s[i:], whitespace+`"`); n >= 0 {
				end = i + n
			}
			i = end
		}
		out = append(out, token{text: s[start:end], offset: start})
	}
	return out
}
