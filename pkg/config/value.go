// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"
)

// port sets a TCP port of at least lowest.
func (r *reader) port(into *uint16, where string, lowest int) func(*yaml.Node) {
	return func(n *yaml.Node) {
		v := int(*into)
		r.number(&v, where, lowest, maxPort)(n)
		*into = uint16(v) //nolint:gosec // number keeps it between lowest and maxPort
	}
}

// number sets a whole number between lowest and highest.
func (r *reader) number(into *int, where string, lowest, highest int) func(*yaml.Node) {
	mend := fmt.Sprintf("give a whole number from %d to %d", lowest, highest)
	return func(n *yaml.Node) {
		text, ok := r.scalar(n, where, mend, "!!int")
		if !ok {
			return
		}
		v, err := strconv.Atoi(text)
		if err != nil || v < lowest || v > highest {
			r.problem(n, mend, "%s is %s", where, text)
			return
		}
		*into = v
	}
}

// duration sets a positive time span.
func (r *reader) duration(into *time.Duration, where string) func(*yaml.Node) {
	mend := fmt.Sprintf("give a time span with its unit from %v to %v, such as 2s or 500ms", minTimeout, strings.TrimSuffix(maxTimeout.String(), "0s"))
	return func(n *yaml.Node) {
		text, ok := r.scalar(n, where, mend, "!!str")
		if !ok {
			return
		}
		v, err := time.ParseDuration(text)
		if err != nil || v < minTimeout || v > maxTimeout {
			r.problem(n, mend, "%s is %q", where, text)
			return
		}
		*into = v
	}
}

// path sets an absolute path.
func (r *reader) path(into *string, where string) func(*yaml.Node) {
	const mend = "give an absolute path"
	return func(n *yaml.Node) {
		text, ok := r.scalar(n, where, mend, "!!str")
		if !ok {
			return
		}
		if !filepath.IsAbs(text) || strings.ContainsRune(text, 0) {
			r.problem(n, mend, "%s is %q", where, text)
			return
		}
		*into = filepath.Clean(text)
	}
}

// listenOn sets where to listen: an address of this host and a port, or the port
// alone for every address; the empty text is nowhere.
func (r *reader) listenOn(into *netip.AddrPort, where string) func(*yaml.Node) {
	mend := fmt.Sprintf(`give a port from %d to %d, with an address of this host or without, such as ":9645" or "[2001:db8::11]:9645", or "" to serve nowhere`, minMetricsPort, maxPort)
	return func(n *yaml.Node) {
		text, ok := r.scalar(n, where, mend, "!!str")
		if !ok {
			return
		}
		if text == "" {
			*into = netip.AddrPort{}
			return
		}
		whole := text
		if strings.HasPrefix(text, ":") {
			whole = "[::]" + text
		}
		at, err := netip.ParseAddrPort(whole)
		addr := at.Addr()
		switch {
		case err != nil || addr.IsMulticast():
			r.problem(n, mend, "%s is %q", where, text)
		case at.Port() < minMetricsPort:
			r.problem(n, mend, "%s has port %d", where, at.Port())
		case addr.Zone() != "":
			r.problem(n, "give an address that is not link-local", "%s is %q, which carries an IPv6 zone", where, text)
		case addr.Is4In6():
			r.problem(n, "write "+netip.AddrPortFrom(addr.Unmap(), at.Port()).String(), "%s is %q, an IPv4 address in IPv6 clothes", where, text)
		default:
			*into = at
		}
	}
}

// placedAddr is an address and where it stands in the file.
type placedAddr struct {
	addr netip.Addr
	node *yaml.Node
}

// addresses appends the virtual IPs of a list.
func (r *reader) addresses(into *[]placedAddr, where string) func(*yaml.Node) {
	const mend = "give an IPv4 or IPv6 address, such as 192.0.2.5 or 2001:db8::5"
	seen := make(map[netip.Addr]bool)
	return func(n *yaml.Node) {
		r.list(n, where, `["192.0.2.5", "2001:db8::5"]`, func(n *yaml.Node) {
			text, ok := r.scalar(n, "an entry of "+where, mend, "!!str")
			if !ok {
				return
			}
			addr, err := netip.ParseAddr(text)
			switch {
			case err != nil && strings.Contains(text, "/"):
				r.problem(n, "leave the mask out", "%q in %s carries a mask", text, where)
			case err != nil:
				r.problem(n, mend, "%q in %s is no address", text, where)
			case addr.Zone() != "":
				r.problem(n, "give the address without its zone; a virtual IP is not link-local", "%q in %s carries an IPv6 zone", text, where)
			case addr.Is4In6():
				r.problem(n, "write "+addr.Unmap().String(), "%q in %s is an IPv4 address in IPv6 clothes", text, where)
			case !addr.IsGlobalUnicast():
				r.problem(n, "give the address that clients reach", "%q in %s cannot be a virtual IP", text, where)
			case seen[addr]:
				r.problem(n, "keep one", "%q stands twice in %s", text, where)
			default:
				seen[addr] = true
				*into = append(*into, placedAddr{addr, n})
			}
		})
	}
}

// hosts appends names in their canonical form: lower case, no trailing dot.
func (r *reader) hosts(into *[]string, where string) func(*yaml.Node) {
	const mend = "give a DNS name such as api.cluster.example.com, without port, path or wildcard"
	seen := make(map[string]bool)
	return func(n *yaml.Node) {
		r.list(n, where, "[api.cluster.example.com]", func(n *yaml.Node) {
			text, ok := r.scalar(n, "an entry of "+where, mend, "!!str")
			if !ok {
				return
			}
			name := strings.ToLower(strings.TrimSuffix(text, "."))
			switch {
			case !IsHostName(name):
				r.problem(n, mend, "%q in %s is no host name", text, where)
			case seen[name]:
				r.problem(n, "keep one", "%q stands twice in %s", text, where)
			default:
				seen[name] = true
				*into = append(*into, name)
			}
		})
	}
}

// IsHostName holds for a lower-case DNS name (RFC 1123 section 2.1, with the
// underscore that real zones use; RFC 1035 section 2.3.4 for the lengths) and
// for an IPv4 address, which has the same form.
func IsHostName(name string) bool {
	if name == "" || len(name) > 253 {
		return false
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for _, c := range []byte(label) {
			if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
				return false
			}
		}
	}
	return true
}
