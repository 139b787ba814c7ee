// SPDX-License-Identifier: Apache-2.0

package report

import (
	"maps"
	"slices"
	"sync"
)

// ledger is what the board counts, and what it was told of certificates: the
// condition does not depend on either.
type ledger struct {
	mu           sync.Mutex
	events       Events
	certificates []Certificate
}

// VIPsMoved counts API VIPs that have come to this host or left it.
func (b *Board) VIPsMoved(n int) {
	b.ledger.mu.Lock()
	defer b.ledger.mu.Unlock()
	b.ledger.events.VIPTransitions += uint64(n) //nolint:gosec // a length
}

// TableRepaired counts that our table was not as it should be, and has been built
// anew.
func (b *Board) TableRepaired() {
	b.ledger.mu.Lock()
	defer b.ledger.mu.Unlock()
	b.ledger.events.TableRepairs++
}

// Reloaded counts a reload by its result, which is one of the constants.
func (b *Board) Reloaded(result string) {
	b.ledger.mu.Lock()
	defer b.ledger.mu.Unlock()
	if b.ledger.events.Reloads == nil {
		b.ledger.events.Reloads = make(map[string]uint64)
	}
	b.ledger.events.Reloads[result]++
}

// SetCertificates takes what the API server presents.
func (b *Board) SetCertificates(all []Certificate) {
	b.ledger.mu.Lock()
	defer b.ledger.mu.Unlock()
	b.ledger.certificates = slices.Clone(all)
}

// report copies both.
func (l *ledger) report() (Events, []Certificate) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.events
	e.Reloads = make(map[string]uint64)
	maps.Copy(e.Reloads, l.events.Reloads)
	return e, append([]Certificate{}, l.certificates...)
}
