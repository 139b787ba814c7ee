// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/prober/protocol"
)

// lookupTimeout bounds the DNS queries.
const lookupTimeout = 3 * time.Second

// dnsRecord is the response of a server for a name in one address family.
type dnsRecord struct {
	protocol.LookupResult
	took time.Duration
	err  error // why there was no query
}

// recordType is the record type of an address family.
func recordType(ipv6 bool) string {
	if ipv6 {
		return "AAAA"
	}
	return "A"
}

// dnsView is the response of one server for a name.
type dnsView struct {
	server  dnsServer
	name    string
	records [2]dnsRecord // A, AAAA
}

// rank is the weight of a server's response. A server outside of this host precedes a
// local one, because OpenShift's local server always returns the VIPs, whatever
// external clients get. A complete response precedes half of one. A server's error
// counts too, because a CA that queries it gets the same.
func (v dnsView) rank() int {
	reported, known := 0, 0
	for _, r := range v.records {
		if r.err != nil || r.Failure == protocol.ServerSilent {
			continue
		}
		reported++
		if r.Failure == "" {
			known++
		}
	}
	if reported == 0 {
		return 0
	}
	weight := 1 + known
	if !v.server.local {
		weight += 4
	}
	return weight
}

// dnsResult is the result of all DNS queries.
type dnsResult struct {
	servers []dnsServer
	views   []dnsView // the response of the highest rank for each name
	reason  string    // why no query was possible
}

// unanswered reports whether no server responded.
func (r dnsResult) unanswered() bool {
	return !slices.ContainsFunc(r.views, func(v dnsView) bool { return v.rank() > 0 })
}

// resolveNames queries all servers for all names.
func (h *host) resolveNames(ctx context.Context, s *observations) dnsResult {
	r := dnsResult{}
	names, _ := s.names.await(ctx)
	var err error
	if r.servers, err = h.dnsServers(); err != nil {
		r.reason = err.Error()
		return r
	}
	switch {
	case len(names) == 0:
		r.reason = "the API's name is unknown (set --name)"
		return r
	case len(r.servers) == 0:
		r.reason = "there is no nameserver in " + h.ResolvConf
		return r
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	views := make([]dnsView, 0, len(names)*len(r.servers))
	for _, name := range names[:min(len(names), maxNames)] {
		for _, server := range r.servers {
			views = append(views, dnsView{server: server, name: name})
		}
	}
	var all sync.WaitGroup
	for i := range views {
		for family := range views[i].records {
			all.Go(func() { views[i].records[family] = h.lookup(ctx, views[i].server, views[i].name, family == 1) })
		}
	}
	all.Wait()
	r.views = bestViews(views)
	if i := slices.IndexFunc(views, func(v dnsView) bool { return v.records[0].err == nil || v.records[1].err == nil }); i < 0 {
		r.reason = views[0].records[0].err.Error()
	}
	return r
}

// bestViews selects the response of the highest rank for each name, the first of
// equals.
func bestViews(views []dnsView) []dnsView {
	var picked []dnsView
	for _, v := range views {
		i := slices.IndexFunc(picked, func(p dnsView) bool { return p.name == v.name })
		switch {
		case i < 0:
			picked = append(picked, v)
		case v.rank() > picked[i].rank():
			picked[i] = v
		}
	}
	return picked
}

func (h *host) lookup(ctx context.Context, s dnsServer, name string, ipv6 bool) dnsRecord {
	begin := time.Now()
	a, err := h.prober.Query(ctx, protocol.Request{Lookup: &protocol.LookupRequest{Server: s.addr, Name: name, IPv6: ipv6}})
	r := dnsRecord{took: time.Since(begin), err: err}
	if err == nil {
		r.LookupResult = *a.Lookup
	}
	return r
}
