// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// MaxFile bounds a file of variables; it is far above any list of names.
const MaxFile = 1 << 20

// Environment is what a file of variables says of the proxy.
type Environment struct {
	HTTPProxy, HTTPSProxy, NoProxy Variable
}

// Variable is a value and where the file assigns it.
type Variable struct {
	name  string
	value *string // a pointer, so that fmt shows no credentials
	line  int
}

// Reveal returns the value, which may hold credentials.
func (v Variable) Reveal() string {
	if v.value == nil {
		return ""
	}
	return *v.value
}

// Format implements [fmt.Formatter] without the value.
func (v Variable) Format(s fmt.State, _ rune) { fmt.Fprintf(s, "%s of line %d", v.name, v.line) }

// MarshalText implements [encoding.TextMarshaler] without the value.
func (v Variable) MarshalText() ([]byte, error) { return fmt.Append(nil, v), nil }

// LineError says in which line of a file something is wrong, and never what the
// line holds.
type LineError struct {
	Line int
	Err  error
}

func (e *LineError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }

// Unwrap returns what is wrong.
func (e *LineError) Unwrap() error { return e.Err }

// What a file can be refused for.
var (
	errHalf    = errors.New("the file ends inside this line, which is half-written: see who writes it, or end the line")
	errQuote   = errors.New("a quote that begins here is not closed before the file ends: close it, or see why the file is half-written")
	errNUL     = errors.New("there is a NUL byte: write plain text")
	errUTF8    = errors.New("this is not UTF-8: write plain text")
	errTooLong = fmt.Errorf("the file is longer than the %d bytes that it may have: see what has been written to it", MaxFile)
)

// ReadEnvironment reads a file of variables as systemd does for EnvironmentFile=
// (systemd.exec(5); parse_env_file_internal of src/basic/env-file.c, v254 and
// later for a comment that ends in a backslash). Unlike systemd it refuses a file
// that ends inside a quote, after a backslash or before an equals sign: it is
// half-written. Of the upper-case and the lower-case name the upper-case one
// counts, unless it is empty, as with [golang.org/x/net/http/httpproxy].
func ReadEnvironment(text []byte) (Environment, error) {
	if len(text) > MaxFile {
		return Environment{}, &LineError{lineAt(text, MaxFile), errTooLong}
	}
	if at := bytes.IndexByte(text, 0); at >= 0 {
		return Environment{}, &LineError{lineAt(text, at), errNUL}
	}
	if at := invalid(text); at >= 0 {
		return Environment{}, &LineError{lineAt(text, at), errUTF8}
	}
	r := reader{text: text, last: make(map[string]Variable)}
	for r.next() {
		if err := r.assignment(); err != nil {
			return Environment{}, err
		}
	}
	return Environment{r.either("HTTP_PROXY"), r.either("HTTPS_PROXY"), r.either("NO_PROXY")}, nil
}

// invalid finds the first byte that is not UTF-8, or -1.
func invalid(text []byte) int {
	for at := 0; at < len(text); {
		r, size := utf8.DecodeRune(text[at:])
		if r == utf8.RuneError && size <= 1 {
			return at
		}
		at += size
	}
	return -1
}

// lineAt is the number of the line in which a byte is. CR, LF and CRLF end lines.
func lineAt(text []byte, at int) int {
	before := text[:at]
	return 1 + bytes.Count(before, []byte("\n")) + bytes.Count(before, []byte("\r")) - bytes.Count(before, []byte("\r\n"))
}

// reader goes through the text once.
type reader struct {
	text []byte
	at   int
	last map[string]Variable // the last assignment of each name
}

func (r *reader) either(name string) Variable {
	upper, lower := r.last[name], r.last[strings.ToLower(name)]
	if upper.Reveal() == "" && lower.Reveal() != "" {
		return lower
	}
	upper.name = cmp.Or(upper.name, name)
	return upper
}

func isNewline(c byte) bool { return c == '\n' || c == '\r' }
func isSpace(c byte) bool   { return isNewline(c) || c == ' ' || c == '\t' }

// next goes to where an assignment begins, if there is another.
func (r *reader) next() bool {
	for ; r.at < len(r.text); r.at++ {
		switch c := r.text[r.at]; {
		case isSpace(c):
		case c == '#' || c == ';':
			r.comment()
		default:
			return true
		}
	}
	return false
}

// comment goes to the end of a line.
func (r *reader) comment() {
	for r.at < len(r.text) && !isNewline(r.text[r.at]) {
		r.at++
	}
}

// assignment takes a name and its value; a line without an equals sign is passed
// over.
func (r *reader) assignment() error {
	begin := r.at
	for ; ; r.at++ {
		if r.at == len(r.text) {
			return r.wrong(begin, errHalf)
		}
		if isNewline(r.text[r.at]) {
			return nil
		}
		// The first character is a part of the name, whatever it is.
		if r.text[r.at] == '=' && r.at > begin {
			break
		}
	}
	name := strings.TrimRight(string(r.text[begin:r.at]), " \t")
	r.at++
	value, err := r.value()
	if err != nil {
		return err
	}
	r.last[name] = Variable{name, &value, lineAt(r.text, begin)}
	return nil
}

func (r *reader) wrong(at int, err error) error { return &LineError{lineAt(r.text, at), err} }

// value takes a value: any number of quoted pieces, and then bare text, in which
// quotes mean nothing.
func (r *reader) value() (string, error) {
	var b strings.Builder
	for ; r.at < len(r.text); r.at++ {
		switch c := r.text[r.at]; {
		case isNewline(c):
			return b.String(), nil
		case isSpace(c):
		case c == '\'' || c == '"':
			if err := r.quoted(&b, c); err != nil {
				return "", err
			}
		default:
			return r.bare(&b)
		}
	}
	return b.String(), nil
}

// quoted takes a piece up to its closing quote, where the reader stays.
func (r *reader) quoted(b *strings.Builder, quote byte) error {
	begin := r.at
	for r.at++; r.at < len(r.text); r.at++ {
		c := r.text[r.at]
		switch {
		case c == quote:
			return nil
		case c == '\\' && quote == '"':
			if r.at++; r.at == len(r.text) {
				return r.wrong(begin, errQuote)
			}
			r.unescape(b)
		default:
			b.WriteByte(c)
		}
	}
	return r.wrong(begin, errQuote)
}

// unescape takes the character after a backslash in double quotes: as in a shell,
// the backslash stays where it has nothing to do.
func (r *reader) unescape(b *strings.Builder) {
	switch c := r.text[r.at]; c {
	case '"', '\\', '`', '$':
		b.WriteByte(c)
	case '\n': // the line goes on
	default:
		b.WriteByte('\\')
		b.WriteByte(c)
	}
}

// bare takes text up to the end of the line, without the space at its end unless
// that is escaped.
func (r *reader) bare(b *strings.Builder) (string, error) {
	keep := 0
	for ; r.at < len(r.text); r.at++ {
		c := r.text[r.at]
		if isNewline(c) {
			break
		}
		if c == '\\' {
			keep = b.Len()
			if r.at++; r.at == len(r.text) {
				return "", r.wrong(r.at-1, errHalf)
			}
			if c = r.text[r.at]; isNewline(c) {
				continue // the line goes on
			}
			b.WriteByte(c)
			keep = b.Len()
			continue
		}
		b.WriteByte(c)
		if !isSpace(c) {
			keep = b.Len()
		}
	}
	return b.String()[:keep], nil
}
