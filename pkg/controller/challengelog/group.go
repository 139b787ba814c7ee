// SPDX-License-Identifier: Apache-2.0

package challengelog

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
)

const (
	// maxReserved bounds the names with their own group.
	maxReserved = 64
	// maxOpen bounds the challenges that are followed at a time: once for all reserved names
	// together, and once for all other names.
	maxOpen = 512
	// minOpen is how many challenges of a reserved name are followed, whatever the number of names.
	minOpen = 16
)

// group holds the challenges of one reserved name, or of all other names. It does not share
// room or budgets: whatever clients request for other names, the challenges of this one are
// followed and get their entries.
type group struct {
	reserved           bool
	open               map[key]*Challenge
	answered, failures entryBudget // by a solver or not: a stranger cannot request a solver's token
}

func newGroup(reserved bool) *group {
	g := &group{reserved: reserved, open: make(map[key]*Challenge), answered: newEntryBudget(6, 2)}
	if g.failures = newEntryBudget(12, 2); reserved {
		g.failures = newEntryBudget(30, 6)
	}
	return g
}

func (g *group) budgetOf(c *Challenge) *entryBudget {
	if c.Answered > 0 {
		return &g.answered
	}
	return &g.failures
}

// evict removes challenges until size are left. It begins with the sources of the most
// challenges, so that no client can occupy the room of others. Of these, invented tokens go
// first: tokens that no solver answered, that were requested once, and whose last request is
// the oldest.
func (g *group) evict(size int) []*Challenge {
	open := make(map[netip.Prefix]int)
	for _, c := range g.open {
		open[c.source]++
	}
	all := slices.SortedFunc(maps.Values(g.open), func(x, y *Challenge) int {
		return cmp.Or(cmp.Compare(open[y.source], open[x.source]), cmp.Compare(min(x.Answered, 1), min(y.Answered, 1)),
			cmp.Compare(min(x.Requests, 2), min(y.Requests, 2)), x.LastRequest.Compare(y.LastRequest))
	})
	evicted := all[:max(0, len(all)-size)]
	for _, c := range evicted {
		delete(g.open, key{c.last.Host, c.last.Token})
	}
	return evicted
}

// Reserve sets the names whose challenges other names must not hide: the names
// that the API server presents certificates for, or that the configuration lists.
func (l *ChallengeLog) Reserve(names []string) {
	names = names[:min(len(names), maxReserved)]
	for name, g := range l.reserved {
		if !slices.Contains(names, name) {
			delete(l.reserved, name)
			maps.Copy(l.others.open, g.open) // Record bounds them
		}
	}
	for _, name := range names {
		if l.reserved[name] == nil && name != "" {
			l.reserved[name] = newGroup(true)
		}
	}
}

// groupOf returns the group of a Host field, and how many of its challenges are followed.
func (l *ChallengeLog) groupOf(host string) (g *group, limit int) {
	if g = l.reserved[Hostname(host)]; g != nil {
		return g, max(minOpen, maxOpen/len(l.reserved))
	}
	return l.others, maxOpen
}
