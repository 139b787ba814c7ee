// SPDX-License-Identifier: Apache-2.0

package keepalived

import (
	"errors"
	"fmt"
	"net/netip"
)

// VIPs are the virtual IP addresses of a cluster. They are unmapped, without zone and without
// duplicates, ordered by instance index and then by position in the file. API and ingress
// VIPs are matched by address family, not by position.
type VIPs struct {
	API     []netip.Addr
	Ingress []netip.Addr
}

// FewerThan reports whether v has fewer API or ingress VIPs than before.
func (v VIPs) FewerThan(before VIPs) bool {
	return len(v.API) < len(before.API) || len(v.Ingress) < len(before.Ingress)
}

// Discovery is the result of reading the configuration once. Files is always set, even after
// an error, so that the caller can watch them.
type Discovery struct {
	VIPs  VIPs
	Files []string // each file that was read or was absent, and each directory that was searched
}

// Read reads the configuration at path with all its includes.
//
// The error wraps ErrIncomplete for a partly written file, and fs.ErrNotExist if there is no
// file at path. It wraps ErrNoAPIInstance for a well-formed file without an API instance. The
// rest of the Discovery is valid in that case. An absent included file is ignored, as
// keepalived does.
func Read(path string) (Discovery, error) {
	r, err := readFile(path)
	return r.Discovery, err
}

var (
	// ErrIncomplete means that a file is probably still being written. It is empty, ends
	// inside a block, a quoted string or a line that is not valid, or contains NUL bytes as a
	// power loss leaves them. A later read may succeed.
	ErrIncomplete = errors.New("keepalived.conf is incomplete")
	// ErrNoAPIInstance means that a well-formed file has no vrrp_instance with an address
	// whose name ends in _API_<n>.
	ErrNoAPIInstance = errors.New("no vrrp_instance named *_API_<n> with an address")
	// ErrUnsupported means that a file contains text that only keepalived's preprocessor can
	// evaluate.
	ErrUnsupported = errors.New("set vips.api and vips.ingress")
	// ErrUnsettled means that part of the last good configuration is missing or that a file
	// ends without a newline, and that SettleTime has not passed since.
	ErrUnsettled = errors.New("keepalived.conf has just changed and may not be complete yet")
)

// position is a position in a configuration file. line and column count from 1. column counts
// bytes.
type position struct {
	file         string
	line, column int
}

// parseError is an error in the configuration and its position.
type parseError struct {
	at   position
	text string
	err  error // ErrIncomplete, the cause of a failed include, or nil
}

func (e *parseError) Error() string {
	s := fmt.Sprintf("%s:%d:%d: %s", e.at.file, e.at.line, e.at.column, e.text)
	if e.err != nil {
		s += ": " + e.err.Error()
	}
	return s
}

func (e *parseError) Unwrap() error { return e.err }

func syntaxErrorf(at position, format string, args ...any) error {
	return &parseError{at: at, text: fmt.Sprintf(format, args...)}
}

// unsupported is the error for text that only keepalived's preprocessor can evaluate.
func unsupported(at position, what string) error {
	return &parseError{at: at, text: what + " is not supported", err: ErrUnsupported}
}

func incompletef(at position, format string, args ...any) error {
	return &parseError{at: at, text: fmt.Sprintf(format, args...), err: ErrIncomplete}
}
