// SPDX-License-Identifier: Apache-2.0

package model

import (
	"net/netip"
	"slices"
	"strings"
)

// Set is a set of addresses as comparable text: sorted, separated by spaces.
type Set string

// NewSet returns the set of these addresses.
func NewSet(addrs ...netip.Addr) Set {
	addrs = slices.Clone(addrs)
	slices.SortFunc(addrs, netip.Addr.Compare)
	words := make([]string, 0, len(addrs))
	for _, a := range slices.Compact(addrs) {
		words = append(words, a.String())
	}
	return Set(strings.Join(words, " "))
}

// List returns the addresses.
func (s Set) List() []netip.Addr {
	var list []netip.Addr
	for word := range strings.FieldsSeq(string(s)) {
		list = append(list, netip.MustParseAddr(word))
	}
	return list
}

// Has reports whether the set contains an address.
func (s Set) Has(a netip.Addr) bool { return slices.Contains(s.List(), a) }

// Keepalived is the meaning of a keepalived.conf.
type Keepalived struct {
	Known        bool // false: the process has accepted no file yet
	Absent       bool
	API, Ingress Set
}

// Config is the meaning of a configuration, as far as it affects the host.
type Config struct {
	Known        bool
	Disabled     bool
	Port         uint16
	Keepalived   bool // keepalived.conf of the lab; otherwise one that does not exist
	API, Ingress Set  // the VIPs, if they are explicit
	Metrics      uint16
}

// explicit reports whether keepalived.conf is not read.
func (c Config) explicit() bool { return c.API != "" }

// readsKeepalived reports whether a process with this configuration reads the lab's
// keepalived.conf.
func (c Config) readsKeepalived() bool {
	return c.Known && !c.Disabled && !c.explicit() && c.Keepalived
}

// Defaults is the configuration without a file.
func Defaults() Config { return Config{Known: true, Port: 8888} }

// Text is a file's content and its meaning. Whole files are in files.go; Cut returns the
// meaning of a part.
type Text struct {
	Body string
	// Rejected means that the content never takes effect.
	Rejected bool
	// Settles means that it takes effect only after lossDelay, whatever was before.
	Settles bool

	Keepalived Keepalived
	Config     Config
}
