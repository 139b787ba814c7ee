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

// FewerThan reports whether v contains fewer API or ingress VIPs than before.
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
	d, _, err := readFile(path)
	return d, err
}

var (
	// ErrIncomplete means that a file is probably still being written. It is empty, ends
	// inside a block, or contains NUL bytes as a power loss leaves them. A later read may
	// succeed.
	ErrIncomplete = errors.New("keepalived.conf is incomplete")
	// ErrNoAPIInstance means that a well-formed file contains no vrrp_instance with an address
	// whose name ends in _API_<n>.
	ErrNoAPIInstance = errors.New("no vrrp_instance named *_API_<n> with an address")
	// ErrUnsupported means that a file contains text that only keepalived's preprocessor can
	// evaluate.
	ErrUnsupported = errors.New("set vips.api and vips.ingress")
)

// position is a line of a configuration file.
type position struct {
	file string
	line int
}

func (at position) errorf(format string, args ...any) error {
	return fmt.Errorf("%s:%d: %w", at.file, at.line, fmt.Errorf(format, args...))
}

// unsupported is the error for text that only keepalived's preprocessor can evaluate.
func (at position) unsupported(what string) error {
	return at.errorf("%s is not supported: %w", what, ErrUnsupported)
}
