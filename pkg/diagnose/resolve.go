// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/prober"
)

// lookupTimeout bounds what the DNS is asked.
const lookupTimeout = 3 * time.Second

// record is what a server knows of a name in one family.
type record struct {
	prober.LookupResult
	took time.Duration
	err  error // why it was not asked
}

// kindOf is the record's type.
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

// weight is how much a server's view counts: what one outside of this host says
// before what one on it does, which OpenShift gives the VIPs by itself, whatever
// the world is told; and what a server says to both questions before half of it.
// A server that fails says something too: a CA that asks it gets no more.
func (v view) weight() int {
	said, known := 0, 0
	for _, r := range v.a {
		if r.err != nil || r.Failure == prober.ServerSilent {
			continue
		}
		said++
		if r.Failure == "" {
			known++
		}
	}
	if said == 0 {
		return 0
	}
	weight := 1 + known
	if !v.server.own {
		weight += 4
	}
	return weight
}

// resolved is what the DNS says.
type resolved struct {
	servers []server
	views   []view // of each name the one that counts most
	why     string // nothing could be asked
}

// silent reports whether no server has said anything.
func (r resolved) silent() bool {
	return !slices.ContainsFunc(r.views, func(v view) bool { return v.weight() > 0 })
}

// resolve asks all servers for all names.
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
	if i := slices.IndexFunc(views, func(v view) bool { return v.a[0].err == nil || v.a[1].err == nil }); i < 0 {
		r.why = views[0].a[0].err.Error()
	}
	return r
}

// best picks for each name the view that counts most, the first of those that
// count the same.
func best(views []view) []view {
	var picked []view
	for _, v := range views {
		i := slices.IndexFunc(picked, func(p view) bool { return p.name == v.name })
		switch {
		case i < 0:
			picked = append(picked, v)
		case v.weight() > picked[i].weight():
			picked[i] = v
		}
	}
	return picked
}

func (h *host) lookup(ctx context.Context, s server, name string, ipv6 bool) record {
	begin := time.Now()
	a, err := h.network.Query(ctx, prober.Request{Lookup: &prober.LookupRequest{Server: s.addr, Name: name, IPv6: ipv6}})
	r := record{took: time.Since(begin), err: err}
	if err == nil {
		r.LookupResult = *a.Lookup
	}
	return r
}
