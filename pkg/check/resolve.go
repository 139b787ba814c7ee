// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/probe"
)

// lookupTimeout bounds what the DNS is asked.
const lookupTimeout = 3 * time.Second

// record is what a server knows of a name in one family.
type record struct {
	addresses []netip.Addr
	took      time.Duration
	err       error
}

// kind is the record's type.
func kindOf(ipv6 bool) string {
	if ipv6 {
		return "AAAA"
	}
	return "A"
}

// view is what one server knows of a name.
type view struct {
	server server
	name   string
	a      [2]record // A, AAAA
}

// whole reports whether the server has answered both questions.
func (v view) whole() bool { return v.a[0].err == nil && v.a[1].err == nil }

// resolved is what the DNS says.
type resolved struct {
	servers []server
	views   []view // of each name the one that counts, if any server has answered
	why     string // nothing could be asked
}

// resolve asks all servers for all names. What one outside of this host says
// counts more than what one on it does: a CA asks outside.
func (h *host) resolve(ctx context.Context, s *seen) resolved {
	r := resolved{}
	names, _ := s.names.wait(ctx)
	var err error
	if r.servers, err = h.servers(); err != nil {
		r.why = err.Error()
		return r
	}
	switch {
	case len(names) == 0:
		r.why = "no name of the API is known: give one with --name"
		return r
	case len(r.servers) == 0:
		r.why = "there is no nameserver in " + h.ResolvConf
		return r
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	views := make([]view, 0, len(names)*len(r.servers))
	for _, name := range names[:min(len(names), maxJudgedNames)] {
		for _, server := range r.servers {
			views = append(views, view{server: server, name: name})
		}
	}
	var all sync.WaitGroup
	for i := range views {
		for family := range views[i].a {
			all.Go(func() { views[i].a[family] = h.lookup(ctx, views[i].server, views[i].name, family == 1) })
		}
	}
	all.Wait()
	r.views = best(views)
	return r
}

// best picks for each name the first server outside that has answered, else the
// first that has.
func best(views []view) []view {
	var picked []view
	at := make(map[string]int)
	for _, v := range views {
		if !v.whole() {
			continue
		}
		i, is := at[v.name]
		switch {
		case !is:
			at[v.name] = len(picked)
			picked = append(picked, v)
		case picked[i].server.own && !v.server.own:
			picked[i] = v
		}
	}
	return picked
}

func (h *host) lookup(ctx context.Context, s server, name string, ipv6 bool) record {
	begin := time.Now()
	a, err := h.network.Ask(ctx, probe.Question{Lookup: &probe.LookupQuestion{Server: s.addr, Name: name, IPv6: ipv6}}, -1)
	r := record{took: time.Since(begin), err: err}
	if err == nil {
		r.addresses = a.Lookup.Addresses
	}
	return r
}

// joined joins addresses for a text.
func joined(addresses []netip.Addr) string {
	texts := make([]string, len(addresses))
	for i, a := range addresses {
		texts[i] = a.String()
	}
	return strings.Join(texts, ", ")
}
