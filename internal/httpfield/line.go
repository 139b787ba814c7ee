// SPDX-License-Identifier: Apache-2.0

package httpfield

import "bytes"

// Fault is what is wrong with a field line. The set is fixed.
type Fault uint8

// The problems of a line.
const (
	NoFault   Fault = iota
	Malformed       // not name ":" value
	Folded          // a continuation of the line before (RFC 9112 section 5.2)
	BareCR          // a CR that is not part of the line's end
)

// Split checks one line, without its end, by RFC 9112 section 5 and splits it.
// The value comes without the white space around it.
func Split(line []byte) (name, value []byte, problem Fault) {
	colon := TokenLength(line)
	switch {
	case colon == 0 && len(line) > 0 && isBlank(line[0]):
		return nil, nil, Folded
	case colon == 0 || colon == len(line) || line[colon] != ':':
		// White space before the colon has been used to hide a field from one of
		// two readers (section 5.1).
		return nil, nil, Malformed
	}
	value = line[colon+1:]
	if !IsText(value) {
		return nil, nil, faultOf(value)
	}
	return line[:colon], Trim(value), NoFault
}

// faultOf names what comes first in a value that is no text.
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

// Next splits the first of lines that Split has accepted, each with its CRLF,
// and returns those after it. It must not be called without a line.
func Next(lines []byte) (name, value, rest []byte) {
	end := bytes.IndexByte(lines, '\n')
	name, value, _ = bytes.Cut(lines[:end-1], []byte{':'})
	return name, Trim(value), lines[end+1:]
}

// Lines finds the lines of a head that arrives in pieces. The zero value stands
// at its beginning.
type Lines struct {
	searchedTo int // for the end of the current line
	lineStart  int // of the current line
}

// Next returns where the next line is in buf, without its CRLF. buf holds what
// the earlier calls saw and whatever came after it, and may have moved. found is
// false when more bytes are needed; ok is false when the line does not end in
// CRLF: RFC 9112 section 2.2 would allow a bare LF, but does not ask for it, and
// two readers may differ on it.
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

// Consumed is how many bytes the lines took that Next has returned.
func (l *Lines) Consumed() int { return l.lineStart }
