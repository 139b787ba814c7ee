// SPDX-License-Identifier: Apache-2.0

package httpfield

import "bytes"

// Fault is the fault of a field line. The set is fixed.
type Fault uint8

// The faults of a line.
const (
	NoFault   Fault = iota
	Malformed       // not name ":" value
	Folded          // a continuation of the line before (RFC 9112 section 5.2)
	BareCR          // a CR that is not part of the line's end
)

// Split validates one line, without its end, by RFC 9112 section 5 and splits it. It trims
// white space around the value.
func Split(line []byte) (name, value []byte, problem Fault) {
	colon := TokenLength(line)
	switch {
	case colon == 0 && len(line) > 0 && isBlank(line[0]):
		return nil, nil, Folded
	case colon == 0 || colon == len(line) || line[colon] != ':':
		// White space before the colon was used to hide a field from one of
		// two parsers (section 5.1).
		return nil, nil, Malformed
	}
	value = line[colon+1:]
	if !IsText(value) {
		return nil, nil, faultOf(value)
	}
	return line[:colon], Trim(value), NoFault
}

// faultOf returns the first fault of an invalid value.
func faultOf(value []byte) Fault {
	for i, c := range value {
		if c == '\r' {
			return BareCR
		}
		if !IsText(value[i : i+1]) {
			break
		}
	}
	return Malformed
}

// Next splits the first of lines and returns the remaining lines. Split must have accepted each
// line; each ends in CRLF. lines must not be empty. An iterator would allocate instead, because
// its body captures the caller's variables.
func Next(lines []byte) (name, value, rest []byte) {
	end := bytes.IndexByte(lines, '\n')
	name, value, _ = bytes.Cut(lines[:end-1], []byte{':'})
	return name, Trim(value), lines[end+1:]
}

// Value returns the value of the first of lines with a name in lower case; nil: none.
func Value(lines []byte, name string) []byte {
	for len(lines) > 0 {
		var n, value []byte
		if n, value, lines = Next(lines); EqualFold(n, name) {
			return value[:len(value):len(value)]
		}
	}
	return nil
}

// Lines finds the lines of a head that arrives in pieces. The zero value is at the
// beginning of the head.
type Lines struct {
	searchedTo int // no line end before this offset
	lineStart  int // offset of the current line
}

// Next returns the position of the next line in buf, without its CRLF. buf holds
// the bytes of the earlier calls and new bytes after them; it may have moved. found
// is false if more bytes are needed. ok is false if the line does not end in CRLF.
// RFC 9112 section 2.2 allows a bare LF but does not require it, and two parsers
// may differ on it.
func (l *Lines) Next(buf []byte) (from, to int, found, ok bool) {
	lf := bytes.IndexByte(buf[l.searchedTo:], '\n')
	if lf < 0 {
		l.searchedTo = len(buf)
		return 0, 0, false, true
	}
	lf += l.searchedTo
	if lf == l.lineStart || buf[lf-1] != '\r' {
		return 0, 0, true, false
	}
	from = l.lineStart
	l.searchedTo, l.lineStart = lf+1, lf+1
	return from, lf - 1, true, true
}

// Consumed returns the number of bytes of the lines that Next returned.
func (l *Lines) Consumed() int { return l.lineStart }
