// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/prober/protocol"
)

// LookupTimeout bounds the DNS queries.
const LookupTimeout = 3 * time.Second

// Record is the response of a server for a name in one address family.
type Record struct {
	protocol.LookupResult

	Took time.Duration
	Err  error // why there was no query
}

// RecordType is the record type of an address family.
func RecordType(ipv6 bool) string {
	if ipv6 {
		return "AAAA"
	}
	return "A"
}

// View is the response of one server for a name.
type View struct {
	Server  Server
	Name    string
	Records [2]Record // A, AAAA
}

// Addresses are the addresses of the name.
func (v View) Addresses() []netip.Addr {
	return slices.Concat(v.Records[0].Addresses, v.Records[1].Addresses)
}

// IsAnswer reports whether the server responded at all.
func (v View) IsAnswer() bool { return v.rank() > 0 }

// rank is the weight of a server's response. A server outside of this host precedes a
// local one, because OpenShift's local server always returns the VIPs, whatever
// external clients get. A complete response precedes half of one. A server's error
// counts too, because a CA that queries it gets the same.
func (v View) rank() int {
	reported, known := 0, 0
	for _, r := range v.Records {
		if r.Err != nil || r.Failure == protocol.ServerSilent {
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
	if !v.Server.Local {
		weight += 4
	}
	return weight
}

// Answers are the results of all DNS queries.
type Answers struct {
	Servers []Server
	Views   []View // the response of the highest rank for each name
	Reason  string // why no query was possible
}

// unanswered reports whether no server responded.
func (r Answers) unanswered() bool { return !slices.ContainsFunc(r.Views, View.IsAnswer) }

// Query is a query for the addresses of a name in one family.
type Query func(ctx context.Context, server netip.AddrPort, name string, ipv6 bool) Record

// Resolve queries all servers for all names.
func Resolve(ctx context.Context, servers []Server, names []string, query Query) Answers {
	ctx, cancel := context.WithTimeout(ctx, LookupTimeout)
	defer cancel()
	views := make([]View, 0, len(names)*len(servers))
	for _, name := range names {
		for _, server := range servers {
			views = append(views, View{Server: server, Name: name})
		}
	}
	var all sync.WaitGroup
	for i := range views {
		v := &views[i]
		for family := range v.Records {
			all.Go(func() { v.Records[family] = query(ctx, v.Server.Addr, v.Name, family == 1) })
		}
	}
	all.Wait()
	r := Answers{Servers: servers, Views: bestViews(views)}
	if !slices.ContainsFunc(views, func(v View) bool { return v.Records[0].Err == nil || v.Records[1].Err == nil }) {
		r.Reason = views[0].Records[0].Err.Error()
	}
	return r
}

// bestViews selects the response of the highest rank for each name, the first of
// equals.
func bestViews(views []View) []View {
	var picked []View
	for _, v := range views {
		i := slices.IndexFunc(picked, func(p View) bool { return p.Name == v.Name })
		switch {
		case i < 0:
			picked = append(picked, v)
		case v.rank() > picked[i].rank():
			picked[i] = v
		}
	}
	return picked
}
