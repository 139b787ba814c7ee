// SPDX-License-Identifier: Apache-2.0

package keepalived

import (
	"regexp"
	"strings"
)

const (
	blanks     = " \t"
	whitespace = " \t\f\n\r\v"
)

// line is one logical line: a single brace, or text without braces.
type line struct {
	text string
	at   position
}

// stripComment removes the comment of a line: # and ! start one outside double quotes, even
// after a backslash. A backslash escapes a double quote. keepalived removes a backslash before #
// and !, writes a copy of the file, and reads that copy in the same way (lib/parser.c, 2.2.8).
func stripComment(s string) (text string, unterminated bool) {
	quoted := false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\' && !quoted && i+1 < len(s) && isComment(s[i+1]):
			return s[:i], false
		case c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case !quoted && isComment(c):
			return s[:i], false
		}
	}
	return s, quoted
}

func isComment(c byte) bool { return c == '#' || c == '!' }

// splitAtBrace splits a line before its first brace, or after the brace if the line starts
// with it. Each brace becomes a line of its own. rest is empty if there is nothing to split.
// Braces inside double quotes are text, and text after an unclosed double quote is not
// examined (read_line of lib/parser.c).
func splitAtBrace(s string) (head, rest string) {
	at := firstBrace(s)
	if at < 0 {
		return s, ""
	}
	at = max(at, 1)
	return s[:at], s[at:]
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

// token is one token of a line.
type token struct {
	text string
	at   position
}

// tokenize splits a line as alloc_strvec of lib/parser.c does: at white space and around
// double-quoted strings, whose quotes are removed. Text after an unclosed quote is dropped.
func (l line) tokenize() []token {
	var out []token
	for i := 0; i < len(l.text); {
		if strings.IndexByte(whitespace, l.text[i]) >= 0 {
			i++
			continue
		}
		start, end := i, len(l.text)
		if l.text[i] == '"' {
			start++
			n := strings.IndexByte(l.text[start:], '"')
			if n < 0 {
				return out
			}
			end = start + n
			i = end + 1
		} else {
			if n := strings.IndexAny(l.text[i:], whitespace+`"`); n >= 0 {
				end = i + n
			}
			i = end
		}
		at := l.at
		at.column += start
		out = append(out, token{text: l.text[start:end], at: at})
	}
	return out
}

var (
	includeLine    = regexp.MustCompile(`^include[rmwba]?[ \t\f\v](.*)`) // the letters change what keepalived logs
	definitionLine = regexp.MustCompile(`^\$[A-Za-z_]\w*=`)
)

// rejectPreprocessor returns an error for a line that keepalived's preprocessor replaces.
func (l line) rejectPreprocessor() error {
	switch s := l.text; {
	case s[0] == '@':
		return unsupported(l.at, "the condition "+strings.Fields(s)[0])
	case strings.HasPrefix(s, "~SEQ"), strings.HasPrefix(s, "~LST"):
		return unsupported(l.at, s[:4])
	case definitionLine.MatchString(s):
		name, _, _ := strings.Cut(s, "=")
		return unsupported(l.at, "the definition "+name)
	}
	if at := firstBrace(l.text); at > 0 && l.text[at-1] == '$' {
		name, _, _ := strings.Cut(l.text[at-1:], "}")
		l.at.column += at - 1
		return unsupported(l.at, "the definition "+name+"}")
	}
	return nil
}
