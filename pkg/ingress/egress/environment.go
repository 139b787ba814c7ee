// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
)

// MaxFile limits a file of variables. It is far above any real list of names.
const MaxFile = 1 << 20

// Environment holds the proxy variables of a file.
type Environment struct {
	HTTPProxy, HTTPSProxy, NoProxy Variable
}

// Variable is a value and the line of its assignment.
type Variable struct {
	name  string
	value ingress.Secret // it may contain credentials
	line  int
}

// Reveal returns the value, which may contain credentials.
func (v Variable) Reveal() string { return v.value.Reveal() }

// LineError is an error in a line of a file. It never quotes the line.
type LineError struct {
	Line int
	Err  error
}

func (e *LineError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }

// Unwrap returns the error.
func (e *LineError) Unwrap() error { return e.Err }

// Reasons to reject a file.
var (
	errTruncated = errors.New("the file ends inside this line: check the program that writes it, or complete the line")
	errQuote     = errors.New("the quote that begins here is not closed: close it, or check the program that writes the file")
	errNUL       = errors.New("NUL byte: write plain text")
	errUTF8      = errors.New("not UTF-8: write plain text")
	errTooLong   = fmt.Errorf("the file is longer than %d bytes: check what was written to it", MaxFile)
)

// ReadEnvironment parses a file of variables as systemd does for EnvironmentFile=
// (systemd.exec(5); parse_env_file_internal of src/basic/env-file.c, v254 and later for
// a comment that ends in a backslash). Unlike systemd it rejects a file that ends
// inside a quote, after a backslash or before an equals sign: such a file is
// incomplete. The upper-case name takes precedence over the lower-case one, unless it
// is empty, as in [golang.org/x/net/http/httpproxy].
func ReadEnvironment(text []byte) (Environment, error) {
	if len(text) > MaxFile {
		return Environment{}, &LineError{lineNumber(text, MaxFile), errTooLong}
	}
	if at := bytes.IndexByte(text, 0); at >= 0 {
		return Environment{}, &LineError{lineNumber(text, at), errNUL}
	}
	if at := invalidUTF8(text); at >= 0 {
		return Environment{}, &LineError{lineNumber(text, at), errUTF8}
	}
	r := environmentReader{text: text, variables: make(map[string]Variable)}
	for r.skipToAssignment() {
		if err := r.readAssignment(); err != nil {
			return Environment{}, err
		}
	}
	return Environment{r.variable("HTTP_PROXY"), r.variable("HTTPS_PROXY"), r.variable("NO_PROXY")}, nil
}

// invalidUTF8 returns the position of the first byte that is not UTF-8, or -1.
func invalidUTF8(text []byte) int {
	for at := 0; at < len(text); {
		r, size := utf8.DecodeRune(text[at:])
		if r == utf8.RuneError && size <= 1 {
			return at
		}
		at += size
	}
	return -1
}

// lineNumber returns the line of a byte. CR, LF and CRLF end lines.
func lineNumber(text []byte, at int) int {
	before := text[:at]
	return 1 + bytes.Count(before, []byte("\n")) + bytes.Count(before, []byte("\r")) - bytes.Count(before, []byte("\r\n"))
}

type environmentReader struct {
	text      []byte
	at        int
	variables map[string]Variable // the last assignment of each name
}

func (r *environmentReader) variable(name string) Variable {
	upper, lower := r.variables[name], r.variables[strings.ToLower(name)]
	if upper.Reveal() == "" && lower.Reveal() != "" {
		return lower
	}
	upper.name = cmp.Or(upper.name, name)
	return upper
}

func isNewline(c byte) bool { return c == '\n' || c == '\r' }
func isSpace(c byte) bool   { return isNewline(c) || c == ' ' || c == '\t' }

// skipToAssignment moves to the next assignment, and reports whether there is one.
func (r *environmentReader) skipToAssignment() bool {
	for ; r.at < len(r.text); r.at++ {
		switch c := r.text[r.at]; {
		case isSpace(c):
		case c == '#' || c == ';':
			r.skipComment()
		default:
			return true
		}
	}
	return false
}

func (r *environmentReader) skipComment() {
	for r.at < len(r.text) && !isNewline(r.text[r.at]) {
		r.at++
	}
}

// readAssignment reads a name and its value. A line without an equals sign is ignored.
func (r *environmentReader) readAssignment() error {
	begin := r.at
	for ; ; r.at++ {
		if r.at == len(r.text) {
			return r.lineError(begin, errTruncated)
		}
		if isNewline(r.text[r.at]) {
			return nil
		}
		// The first character is always part of the name.
		if r.text[r.at] == '=' && r.at > begin {
			break
		}
	}
	name := strings.TrimRight(string(r.text[begin:r.at]), " \t")
	r.at++
	value, err := r.readValue()
	if err != nil {
		return err
	}
	r.variables[name] = Variable{name, ingress.NewSecret(value), lineNumber(r.text, begin)}
	return nil
}

func (r *environmentReader) lineError(at int, err error) error {
	return &LineError{lineNumber(r.text, at), err}
}

// readValue reads any number of quoted parts, and then unquoted text, in which quotes
// have no meaning.
func (r *environmentReader) readValue() (string, error) {
	var b strings.Builder
	for ; r.at < len(r.text); r.at++ {
		switch c := r.text[r.at]; {
		case isNewline(c):
			return b.String(), nil
		case isSpace(c):
		case c == '\'' || c == '"':
			if err := r.readQuoted(&b, c); err != nil {
				return "", err
			}
		default:
			return r.readUnquoted(&b)
		}
	}
	return b.String(), nil
}

// readQuoted reads up to the closing quote, and leaves the reader there.
func (r *environmentReader) readQuoted(b *strings.Builder, quote byte) error {
	begin := r.at
	for r.at++; r.at < len(r.text); r.at++ {
		c := r.text[r.at]
		switch {
		case c == quote:
			return nil
		case c == '\\' && quote == '"':
			if r.at++; r.at == len(r.text) {
				return r.lineError(begin, errQuote)
			}
			r.unescape(b)
		default:
			b.WriteByte(c)
		}
	}
	return r.lineError(begin, errQuote)
}

// unescape reads the character after a backslash in double quotes. As in a shell, a
// backslash without a special meaning is kept.
func (r *environmentReader) unescape(b *strings.Builder) {
	switch c := r.text[r.at]; c {
	case '"', '\\', '`', '$':
		b.WriteByte(c)
	case '\n': // a continuation line
	default:
		b.WriteByte('\\')
		b.WriteByte(c)
	}
}

// readUnquoted reads to the end of the line, without trailing space unless that is
// escaped.
func (r *environmentReader) readUnquoted(b *strings.Builder) (string, error) {
	end := 0
	for ; r.at < len(r.text); r.at++ {
		c := r.text[r.at]
		if isNewline(c) {
			break
		}
		if c == '\\' {
			end = b.Len()
			if r.at++; r.at == len(r.text) {
				return "", r.lineError(r.at-1, errTruncated)
			}
			if c = r.text[r.at]; isNewline(c) {
				continue // a continuation line
			}
			b.WriteByte(c)
			end = b.Len()
			continue
		}
		b.WriteByte(c)
		if !isSpace(c) {
			end = b.Len()
		}
	}
	return b.String()[:end], nil
}
