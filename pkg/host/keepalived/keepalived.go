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

// Role is the purpose of a VRRP instance, derived from its name.
type Role uint8

// Roles of VRRP instances. OpenShift names its instances <cluster>_API_<n> and
// <cluster>_INGRESS_<n>, where n numbers the address families.
const (
	RoleOther   Role = iota // any other name
	RoleAPI                 // *_API_<n>
	RoleIngress             // *_INGRESS_<n>
)

// Instance is one vrrp_instance block.
type Instance struct {
	Name  string
	Role  Role
	Index int          // the <n> of its name; 0 for RoleOther
	Addrs []netip.Addr // virtual_ipaddress and virtual_ipaddress_excluded, in file order, each once
}

// IgnoredEntry is an entry that keepalived ignores with a log message, and that this package
// ignores too.
type IgnoredEntry struct {
	Pos  Pos
	Text string
}

// String returns the entry as file:line:column: text.
func (n IgnoredEntry) String() string { return n.Pos.String() + ": " + n.Text }

// Discovery is the result of reading the configuration once. Files is always set, even after
// an error, so that the caller can watch them.
type Discovery struct {
	VIPs      VIPs
	Instances []Instance     // all instances, in file order
	Ignored   []IgnoredEntry // at most maxIgnored
	Files     []string       // each file that was read or was absent, and each directory that was searched
}

// Read reads the configuration at path with all its includes. The config ID of conditional
// lines (@id) is the host name up to its first dot. This is keepalived's default
// (core/main.c), which its option -i overrides.
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

// Limits on the cost of reading the configuration. OpenShift's file has 4 KiB, no include and
// a nesting depth of 3.
const (
	maxFileBytes      = 1 << 20 // one file
	maxTotalBytes     = 4 << 20 // all files together
	maxFiles          = 256     // all files together
	maxIncludeDepth   = 8
	maxNesting        = 64
	maxExpandedBytes  = 1 << 20 // text produced by definitions, plus lineCost for each of its lines
	lineCost          = 16
	maxSubstitutions  = 1 << 12 // uses of definitions
	maxGlobBraces     = 64      // brace alternatives of one include
	maxInstances      = 1024
	maxInstanceDigits = 4
	maxIgnored        = 32

	// maxLine is the longest line that keepalived accepts, without comments: MAXBUF of
	// lib/parser.h minus the terminating NUL.
	maxLine = 1023
)
