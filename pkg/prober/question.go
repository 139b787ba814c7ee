// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"errors"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
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
// name is set. The child composes no text.
//
// These are the network's own words, which are a finding as they are: of a
// [Certificate] the Issuer; of a [Fetch] the Server, ProxyStatus, Via, Location,
// ContentType and Body. [Client.Ask] makes each a bounded line without control
// characters, but for the Body. Whoever shows one quotes it and says whose it is.
type Answer struct {
	ID    uint64     `json:"id"`
	Error *cause.Why `json:"error,omitempty"` // why there is no answer

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

// Check refuses what no child of ours answers.
func (a Answer) Check() error {
	var all []error
	if a.Error != nil {
		all = append(all, a.Error.Check())
	}
	if a.Certificate != nil {
		all = append(all, a.Certificate.check())
	}
	if a.Lookup != nil {
		for _, addr := range a.Lookup.Addresses {
			all = append(all, cause.CheckAddr(addr))
		}
	}
	if a.Fetch != nil {
		all = append(all, a.Fetch.check())
	}
	if a.Neighbours != nil {
		all = append(all, a.Neighbours.check())
	}
	if a.Through != nil {
		all = append(all, a.Through.Why.Check(), cause.CheckAddr(a.Through.Tried.Addr()))
	}
	return errors.Join(all...)
}

// Tamed is the answer with texts that are bounded and may be printed: they are
// the network's.
func (a Answer) Tamed() Answer {
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
