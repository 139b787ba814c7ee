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

// RecordType is the record type of an address family.
func RecordType(ipv6 bool) string {
	if ipv6 {
		return "AAAA"
	}
	return "A"
}

// View is the response of one server for a name.
type View struct {
	Server Server
	Name   string
	protocol.LookupResult

	Took time.Duration
	Err  error // why there was no query
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
// counts too, because a CA that queries it gets the same. A server that validates DNSSEC precedes
// one that does not, because every public CA validates it.
func (v View) rank() int {
	reported, known := 0, 0
	for _, r := range v.Records {
		if v.Err != nil || r.Failure == protocol.ServerSilent {
			continue
		}
		reported++
		switch r.Failure {
		case "":
			known++
		case protocol.ServerBogus:
			known += 3
		default:
		}
	}
	if reported == 0 {
		return 0
	}
	weight := 1 + min(known, 3)
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

// Query queries a server for the addresses of a name.
type Query func(ctx context.Context, server Server, name string) View

// Resolve queries all servers for all names.
func Resolve(ctx context.Context, servers []Server, names []string, query Query) Answers {
	ctx, cancel := context.WithTimeout(ctx, LookupTimeout)
	defer cancel()
	views := make([]View, len(names)*len(servers))
	var all sync.WaitGroup
	for i := range views {
		all.Go(func() { views[i] = query(ctx, servers[i%len(servers)], names[i/len(servers)]) })
	}
	all.Wait()
	r := Answers{Servers: servers, Views: bestViews(views)}
	if !slices.ContainsFunc(views, func(v View) bool { return v.Err == nil }) {
		r.Reason = views[0].Err.Error()
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
