// SPDX-License-Identifier: Apache-2.0

package keepalived

import (
	"net/netip"
)

// VIPs are the virtual addresses of a cluster: canonical, unmapped, without
// zone, no duplicates, ordered by instance index and then by place in the file.
// API and ingress belong together by address family, not by position.
type VIPs struct {
	API     []netip.Addr
	Ingress []netip.Addr
}

// Role is what a VRRP instance is for, told by its name.
type Role uint8

// The roles. OpenShift names its instances <cluster>_API_<n> and
// <cluster>_INGRESS_<n>, with n counting the address families.
const (
	RoleOther   Role = iota // any other name
	RoleAPI                 // *_API_<n>
	RoleIngress             // *_INGRESS_<n>
)

// String returns the role in lower case.
func (r Role) String() string {
	switch r {
	case RoleAPI:
		return "api"
	case RoleIngress:
		return "ingress"
	default:
		return "other"
	}
}

// Instance is one vrrp_instance block.
type Instance struct {
	Name  string
	Role  Role
	Index int          // the <n> of its name; 0 for RoleOther
	Addrs []netip.Addr // virtual_ipaddress and virtual_ipaddress_excluded, in file order, each once
	Pos   Pos          // where its vrrp_instance line is
}

// IgnoredEntry is something that keepalived would leave out with a message in its log,
// and that was left out here too.
type IgnoredEntry struct {
	Pos  Pos
	Text string
}

// String returns the note as file:line:column: text.
func (n IgnoredEntry) String() string { return n.Pos.String() + ": " + n.Text }

// Discovery is what one reading of the file found. Files is filled whatever
// else went wrong, so that the caller knows what to watch.
type Discovery struct {
	VIPs      VIPs
	Instances []Instance     // every instance, in file order
	Ignored   []IgnoredEntry // at most maxIgnored
	Files     []string       // each file that was read or looked for, and each directory that was searched
}

// Read reads the configuration at path with everything that it includes. The
// config id of conditional lines (@id) is the host name up to its first dot,
// which is keepalived's default (core/main.c; -i overrides it there).
//
// The error wraps ErrIncomplete for a file that looks half-written,
// ErrNoAPIInstance for a well-formed one without an API instance (the rest of
// the Discovery is valid then), and fs.ErrNotExist when there is no file at
// path; a file that is included but absent is passed over, as keepalived does.
func Read(path string) (Discovery, error) {
	r, err := readFile(path)
	return r.Discovery, err
}
