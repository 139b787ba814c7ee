// SPDX-License-Identifier: Apache-2.0

package keepalived

import (
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
