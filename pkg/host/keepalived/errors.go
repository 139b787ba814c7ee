// SPDX-License-Identifier: Apache-2.0

package keepalived

import (
	"errors"
	"fmt"
)

var (
	// ErrIncomplete says that a file looks half-written: empty, ending inside
	// a block, a quoted string or a definition, or holding NUL bytes as a
	// power loss leaves them. Reading it again soon may help.
	ErrIncomplete = errors.New("keepalived.conf looks half-written")
	// ErrNoAPIInstance says that a well-formed file has no vrrp_instance whose
	// name ends in _API_<n> and which has an address.
	ErrNoAPIInstance = errors.New("no vrrp_instance named *_API_<n> with an address")
	// ErrUnsettled says that something which the last good answer had is gone,
	// or that a file ends without a newline, and that this has not lasted for
	// SettleTime yet.
	ErrUnsettled = errors.New("keepalived.conf has just changed and may not be complete yet")
)

// Pos is a place in a configuration file. Line and Column count from 1; Column
// counts bytes. Text that came out of a definition has the place of the line
// that used it.
type Pos struct {
	File   string
	Line   int
	Column int
}

// String returns file:line:column.
func (p Pos) String() string { return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column) }

// ParseError is a fault of the configuration and its place.
type ParseError struct {
	Pos  Pos
	Text string
	Err  error // ErrIncomplete, the cause of a failed include, or nil
}

// Error returns file:line:column: text, and the cause when there is one.
func (e *ParseError) Error() string {
	s := e.Pos.String() + ": " + e.Text
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *ParseError) Unwrap() error { return e.Err }

func syntaxErrorf(pos Pos, format string, args ...any) error {
	return &ParseError{Pos: pos, Text: fmt.Sprintf(format, args...)}
}

func incompletef(pos Pos, format string, args ...any) error {
	return &ParseError{Pos: pos, Text: fmt.Sprintf(format, args...), Err: ErrIncomplete}
}
