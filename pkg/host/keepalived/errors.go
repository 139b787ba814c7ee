// SPDX-License-Identifier: Apache-2.0

package keepalived

import (
	"errors"
	"fmt"
)

var (
	// ErrIncomplete means that a file is probably still being written. It is empty, ends
	// inside a block, a quoted string or a definition, or contains NUL bytes as a power loss
	// leaves them. A later read may succeed.
	ErrIncomplete = errors.New("keepalived.conf is incomplete")
	// ErrNoAPIInstance means that a well-formed file has no vrrp_instance with an address
	// whose name ends in _API_<n>.
	ErrNoAPIInstance = errors.New("no vrrp_instance named *_API_<n> with an address")
	// ErrUnsettled means that part of the last good configuration is missing or that a file
	// ends without a newline, and that SettleTime has not passed since.
	ErrUnsettled = errors.New("keepalived.conf has just changed and may not be complete yet")
)

// Pos is a position in a configuration file. Line and Column count from 1. Column counts
// bytes. Text produced by a definition has the position of the line that uses the definition.
type Pos struct {
	File   string
	Line   int
	Column int
}

// String returns file:line:column.
func (p Pos) String() string { return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column) }

// ParseError is an error in the configuration and its position.
type ParseError struct {
	Pos  Pos
	Text string
	Err  error // ErrIncomplete, the cause of a failed include, or nil
}

// Error returns file:line:column: text, and the cause if there is one.
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
