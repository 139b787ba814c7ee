// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"time"
)

// Question is one that the child answers by itself: one field is set.
type Question struct {
	ID     uint64        `json:"id"`
	Budget time.Duration `json:"budget"` // the whole of it

	Certificate *CertificateQuestion `json:"certificate,omitempty"`
	Lookup      *LookupQuestion      `json:"lookup,omitempty"`
	Fetch       *FetchQuestion       `json:"fetch,omitempty"`
	Neighbours  *NeighboursQuestion  `json:"neighbours,omitempty"`
	Clock       *ClockQuestion       `json:"clock,omitempty"`
	Through     *ThroughQuestion     `json:"through,omitempty"`
}

// Answer answers the question with the same ID: Error or the field of the same
// name is set. Its texts come from the network: [Client.Ask] makes each a bounded
// line without control characters.
type Answer struct {
	ID    uint64 `json:"id"`
	Error string `json:"error,omitempty"` // why there is no answer, in one line

	Certificate *Certificate `json:"certificate,omitempty"`
	Lookup      *Lookup      `json:"lookup,omitempty"`
	Fetch       *Fetch       `json:"fetch,omitempty"`
	Neighbours  *Neighbours  `json:"neighbours,omitempty"`
	Clock       *Clock       `json:"clock,omitempty"`
	Through     *Through     `json:"through,omitempty"`
}

// answers reports whether it is of q's kind: the child reads what the network sends,
// so that no word of it is trusted.
func (a Answer) answers(q Question) bool {
	return (q.Certificate == nil || a.Certificate != nil) && (q.Lookup == nil || a.Lookup != nil) && (q.Fetch == nil || a.Fetch != nil) &&
		(q.Neighbours == nil || a.Neighbours != nil) && (q.Clock == nil || a.Clock != nil) &&
		(q.Through == nil || a.Through != nil)
}

// Tamed is the answer with texts that are bounded and may be printed: they are
// the network's.
func (a Answer) Tamed() Answer {
	a.Error = line(a.Error)
	if a.Certificate != nil {
		a.Certificate.tame()
	}
	if a.Lookup != nil {
		a.Lookup.tame()
	}
	if a.Fetch != nil {
		a.Fetch.tame()
	}
	if a.Neighbours != nil {
		a.Neighbours.tame()
	}
	if a.Through != nil {
		a.Through.tame()
	}
	return a
}
