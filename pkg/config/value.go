// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
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
			r.problem(n, mend, "%s is %s", where, redact(text))
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
			r.problem(n, mend, "%s is %s", where, quoteRedacted(text))
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
			r.problem(n, mend, "%s is %s", where, quoteRedacted(text))
			return
		}
		*into = filepath.Clean(text)
	}
}

// boolean sets a switch.
func (r *reader) boolean(into *bool, where string) func(*yaml.Node) {
	const mend = "write true or false"
	return func(n *yaml.Node) {
		text, ok := r.scalar(n, where, mend, "!!bool")
		if !ok {
			return
		}
		v, err := strconv.ParseBool(text)
		if err != nil {
			r.problem(n, mend, "%s is %s", where, redact(text))
			return
		}
		*into = v
	}
}

// oneOf sets one of a few words.
func oneOf[T ~string](r *reader, into *T, where string, words ...T) func(*yaml.Node) {
	listed := make([]string, len(words))
	for i, word := range words {
		listed[i] = strconv.Quote(string(word))
	}
	mend := "write " + strings.Join(listed[:len(listed)-1], ", ") + " or " + listed[len(listed)-1]
	return func(n *yaml.Node) {
		text, ok := r.scalar(n, where, mend, "!!str")
		switch {
		case !ok:
		case !slices.Contains(words, T(text)):
			r.problem(n, mend, "%s is %s", where, quoteRedacted(text))
		default:
			*into = T(text)
		}
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
			r.problem(n, mend, "%s is %s", where, quoteRedacted(text))
		case at.Port() < minMetricsPort:
			r.problem(n, mend, "%s has port %d", where, at.Port())
		case addr.Zone() != "":
			r.problem(n, "give an address that is not link-local", "%s is %s, which carries an IPv6 zone", where, quoteRedacted(text))
		case addr.Is4In6():
			r.problem(n, "write "+netip.AddrPortFrom(addr.Unmap(), at.Port()).String(), "%s is %s, an IPv4 address in IPv6 clothes", where, quoteRedacted(text))
		default:
			*into = at
		}
	}
}

// addrNode is an address and where it stands in the file.
type addrNode struct {
	addr netip.Addr
	node *yaml.Node
}

// addresses appends the virtual IPs of a list.
func (r *reader) addresses(into *[]addrNode, where string) func(*yaml.Node) {
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
				r.problem(n, "leave the mask out", "%s in %s carries a mask", quoteRedacted(text), where)
			case err != nil:
				r.problem(n, mend, "%s in %s is no address", quoteRedacted(text), where)
			case addr.Zone() != "":
				r.problem(n, "give the address without its zone; a virtual IP is not link-local", "%s in %s carries an IPv6 zone", quoteRedacted(text), where)
			case addr.Is4In6():
				r.problem(n, "write "+addr.Unmap().String(), "%s in %s is an IPv4 address in IPv6 clothes", quoteRedacted(text), where)
			case !addr.IsGlobalUnicast():
				r.problem(n, "give the address that clients reach", "%s in %s cannot be a virtual IP", quoteRedacted(text), where)
			case seen[addr]:
				r.problem(n, "keep one", "%s stands twice in %s", quoteRedacted(text), where)
			default:
				seen[addr] = true
				*into = append(*into, addrNode{addr, n})
			}
		})
	}
}

// hosts appends names in their canonical form: lower case, no trailing dot.
func (r *reader) hosts(into *[]string, where string) func(*yaml.Node) {
	return r.names(into, where, "[api.cluster.example.com]",
		"give a DNS name such as api.cluster.example.com, without port, path or wildcard", IsHostName)
}

// certificateNames appends names as certificates have them: "*" may stand for the
// first label.
func (r *reader) certificateNames(into *[]string, where string) func(*yaml.Node) {
	return r.names(into, where, `["*.apps.cluster.example.com"]`,
		`give a DNS name such as router.example.com or "*.apps.cluster.example.com", without port or path`,
		func(name string) bool { return IsHostName(strings.TrimPrefix(name, "*.")) })
}

func (r *reader) names(into *[]string, where, example, mend string, good func(string) bool) func(*yaml.Node) {
	seen := make(map[string]bool)
	return func(n *yaml.Node) {
		r.list(n, where, example, func(n *yaml.Node) {
			text, ok := r.scalar(n, "an entry of "+where, mend, "!!str")
			if !ok {
				return
			}
			name := strings.ToLower(strings.TrimSuffix(text, "."))
			switch {
			case !good(name):
				r.problem(n, mend, "%s in %s is no host name", quoteRedacted(text), where)
			case seen[name]:
				r.problem(n, "keep one", "%s stands twice in %s", quoteRedacted(text), where)
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
