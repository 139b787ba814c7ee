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

	"github.com/http01-proxyd/http01-proxyd/internal/httpfield"
)

// value sets a scalar of one YAML type. parse reports whether the text is valid.
func value[T any](r *reader, into *T, fix, tag string, parse func(text string) (T, bool)) parseFunc {
	return func(n *yaml.Node, where string) {
		text, ok := r.scalar(n, where, fix, tag)
		if !ok {
			return
		}
		v, valid := parse(text)
		switch {
		case valid:
			*into = v
		case tag == "!!str":
			r.problem(n, fix, "%s is %s", where, quoteRedacted(text))
		default:
			r.problem(n, fix, "%s is %s", where, redact(text))
		}
	}
}

func number[T int | uint16](r *reader, into *T, lowest, highest int) parseFunc {
	fix := fmt.Sprintf("specify a whole number from %d to %d", lowest, highest)
	return value(r, into, fix, "!!int", func(text string) (T, bool) {
		v, err := strconv.Atoi(text)
		return T(v), err == nil && v >= lowest && v <= highest
	})
}

// presence is whether a value must exist.
type presence bool

// The presences. An optional value may be "" or 0s.
const (
	required presence = true
	optional presence = false
)

func (r *reader) duration(into *time.Duration, lowest, highest time.Duration, need presence) parseFunc {
	hint := "such as 2s or 500ms"
	if need == optional {
		hint = "such as 1h, or 0s to disable it"
	}
	limit := strings.TrimSuffix(strings.TrimSuffix(highest.String(), "0s"), "0m")
	fix := fmt.Sprintf("specify a time span with its unit from %v to %v, %s", lowest, limit, hint)
	return value(r, into, fix, "!!str", func(text string) (time.Duration, bool) {
		v, err := time.ParseDuration(text)
		return v, err == nil && (v >= lowest && v <= highest || v == 0 && need == optional)
	})
}

func (r *reader) path(into *string, need presence) parseFunc {
	fix := "specify an absolute path"
	if need == optional {
		fix += `, or "" for no path`
	}
	return value(r, into, fix, "!!str", func(text string) (string, bool) {
		if text == "" {
			return "", need == optional
		}
		return filepath.Clean(text), filepath.IsAbs(text) && !strings.ContainsRune(text, 0)
	})
}

func (r *reader) boolean(into *bool) parseFunc {
	return value(r, into, "write true or false", "!!bool", func(text string) (bool, bool) {
		v, err := strconv.ParseBool(text)
		return v, err == nil
	})
}

func oneOf[T ~string](r *reader, into *T, words ...T) parseFunc {
	listed := make([]string, len(words))
	for i, word := range words {
		listed[i] = strconv.Quote(string(word))
	}
	fix := "write " + strings.Join(listed[:len(listed)-1], ", ") + " or " + listed[len(listed)-1]
	return value(r, into, fix, "!!str", func(text string) (T, bool) {
		return T(text), slices.Contains(words, T(text))
	})
}

// listenOn sets the address to listen on: an address of this host and a port, or only
// a port for all addresses. An empty string disables listening.
func (r *reader) listenOn(into *netip.AddrPort) parseFunc {
	fix := fmt.Sprintf(`specify a port from %d to %d, optionally with an address of this host that is not link-local, `+
		`such as ":9645" or "[2001:db8::11]:9645", or "" to disable it`, minMetricsPort, maxPort)
	return value(r, into, fix, "!!str", func(text string) (netip.AddrPort, bool) {
		if text == "" {
			return netip.AddrPort{}, true
		}
		if strings.HasPrefix(text, ":") {
			text = "[::]" + text
		}
		at, err := netip.ParseAddrPort(text)
		addr := at.Addr()
		valid := err == nil && addr.Zone() == "" && !addr.Is4In6() && !addr.IsMulticast()
		return at, valid && at.Port() >= minMetricsPort
	})
}

func (r *reader) addresses(into *[]netip.Addr) parseFunc {
	const fix = "specify an IPv4 or IPv6 address that clients use, without prefix length and zone, such as 192.0.2.5 or " +
		"2001:db8::5"
	return entries(r, into, "a virtual IP", `["192.0.2.5", "2001:db8::5"]`, fix, func(text string) (netip.Addr, bool) {
		addr, err := netip.ParseAddr(text)
		return addr, err == nil && addr.Zone() == "" && !addr.Is4In6() && addr.IsGlobalUnicast()
	})
}

// anyHost is the entry of hosts that stands for any name.
const anyHost = "*"

// hosts appends names in canonical form: lower case, without a trailing dot; an IPv6
// address as in RFC 5952, without brackets.
func (r *reader) hosts(into *[]string) parseFunc {
	const fix = `specify a DNS name such as api.cluster.example.com, or an IP address without brackets and zone; ` +
		`no scheme, port, path or wildcard; or only "*" for any name`
	return entries(r, into, "a host name", "[api.cluster.example.com]", fix, func(text string) (string, bool) {
		if addr, err := netip.ParseAddr(text); err == nil {
			return addr.String(), addr.Zone() == "" && !addr.Is4In6()
		}
		name := canonicalName(text)
		return name, name == anyHost || httpfield.IsHostName(name)
	})
}

// checkHosts replaces the entry for any name. Other names beside it would change nothing.
func (p *parser) checkHosts() {
	c := &p.config
	at := slices.Index(c.Hosts, anyHost)
	switch {
	case at < 0:
	case len(c.Hosts) > 1:
		p.problem(p.values["hosts"].Content[at], "keep only the names, or only \"*\"",
			"hosts contains names and \"*\", which means any name")
	default:
		c.Hosts, c.AnyHost = nil, true
	}
}

// certificateNames appends names as in certificates: the first label may be "*".
func (r *reader) certificateNames(into *[]string) parseFunc {
	const fix = `specify a DNS name such as router.example.com or "*.apps.cluster.example.com", without port or path`
	return entries(r, into, "a host name", `["*.apps.cluster.example.com"]`, fix, func(text string) (string, bool) {
		name := canonicalName(text)
		return name, httpfield.IsHostName(strings.TrimPrefix(name, "*."))
	})
}

// canonicalName returns a DNS name in lower case without its trailing dot.
func canonicalName(text string) string { return strings.ToLower(strings.TrimSuffix(text, ".")) }

// entries appends each entry of a list once. parse returns its canonical form and reports
// whether it is valid. noun is what an entry must be.
func entries[T comparable](
	r *reader, into *[]T, noun, example, fix string, parse func(text string) (T, bool),
) parseFunc {
	return func(n *yaml.Node, where string) {
		r.list(n, where, example, func(n *yaml.Node) {
			text, ok := r.scalar(n, "an entry of "+where, fix, "!!str")
			if !ok {
				return
			}
			v, ok := parse(text)
			switch {
			case !ok:
				r.problem(n, fix, "%s in %s is not %s", quoteRedacted(text), where, noun)
			case slices.Contains(*into, v):
				r.problem(n, "keep one", "%s is listed twice in %s", quoteRedacted(text), where)
			default:
				*into = append(*into, v)
			}
		})
	}
}

// InternalAPIPrefix begins the name by which the nodes of a cluster reach the API,
// api-int.<cluster>. Kubelets trust only the cluster's own CA for it.
const InternalAPIPrefix = "api-int."

// IsInternalAPIName reports whether a lower-case host name is the name under which nodes reach
// the API of their cluster.
func IsInternalAPIName(name string) bool {
	return strings.HasPrefix(name, InternalAPIPrefix) && httpfield.IsHostName(name)
}
