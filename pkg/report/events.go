// SPDX-License-Identifier: Apache-2.0

package report

import (
	"maps"
	"slices"
	"sync"
)

// eventCounts is what the board counts, and what it was told of certificates: the
// condition does not depend on either.
type eventCounts struct {
	mu           sync.Mutex
	events       Events
	certificates []Certificate
}

// CountVIPTransitions counts API Answered that have come to this host or left it.
func (b *Tracker) CountVIPTransitions(n int) {
	b.eventCounts.mu.Lock()
	defer b.eventCounts.mu.Unlock()
	b.eventCounts.events.VIPTransitions += uint64(n) //nolint:gosec // a length
}

// CountTableRepair counts that our table was not as it should be, and has been built
// anew.
func (b *Tracker) CountTableRepair() {
	b.eventCounts.mu.Lock()
	defer b.eventCounts.mu.Unlock()
	b.eventCounts.events.TableRepairs++
}

// CountReload counts a reload by its result, which is one of the constants.
func (b *Tracker) CountReload(result string) {
	b.eventCounts.mu.Lock()
	defer b.eventCounts.mu.Unlock()
	if b.eventCounts.events.Reloads == nil {
		b.eventCounts.events.Reloads = make(map[string]uint64)
	}
	b.eventCounts.events.Reloads[result]++
}

// SetCertificates takes what the API server presents.
func (b *Tracker) SetCertificates(all []Certificate) {
	b.eventCounts.mu.Lock()
	defer b.eventCounts.mu.Unlock()
	b.eventCounts.certificates = slices.Clone(all)
}

// withEmptyLists copies both.
func (l *eventCounts) snapshot() (Events, []Certificate) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.events
	e.Reloads = make(map[string]uint64)
	maps.Copy(e.Reloads, l.events.Reloads)
	return e, append([]Certificate{}, l.certificates...)
}
