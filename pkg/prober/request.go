// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"errors"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
)

// Request is one that the child answers by itself: one field is set.
type Request struct {
	ID      uint64        `json:"id"`
	Timeout time.Duration `json:"budget"` // the whole of it

	Certificate *CertificateRequest `json:"certificate,omitempty"`
	Lookup      *LookupRequest      `json:"lookup,omitempty"`
	Fetch       *FetchRequest       `json:"fetch,omitempty"`
	Neighbours  *NeighboursRequest  `json:"neighbours,omitempty"`
	Clock       *ClockRequest       `json:"clock,omitempty"`
	Endpoint    *EndpointRequest    `json:"through,omitempty"`
}

// Response answers the question with the same ID: Error or the field of the same
// name is set. The child composes no text.
//
// These are the network's own words, which are a finding as they are: of a
// [Certificate] the Issuer; of a [Fetch] the Server, ProxyStatus, Via, Location,
// ContentType and Body. [Client.Ask] makes each a bounded line without control
// characters, but for the Body. Whoever shows one quotes it and says whose it is.
type Response struct {
	ID    uint64         `json:"id"`
	Error *cause.Details `json:"error,omitempty"` // why there is no answer

	Certificate *Certificate      `json:"certificate,omitempty"`
	Lookup      *LookupResult     `json:"lookup,omitempty"`
	Fetch       *FetchResult      `json:"fetch,omitempty"`
	Neighbours  *NeighboursResult `json:"neighbours,omitempty"`
	Clock       *ClockResult      `json:"clock,omitempty"`
	Endpoint    *EndpointResult   `json:"through,omitempty"`
}

// matches reports whether it is of q's kind: the child reads what the network sends,
// so that no word of it is trusted.
func (a Response) matches(q Request) bool {
	return (q.Certificate == nil || a.Certificate != nil) && (q.Lookup == nil || a.Lookup != nil) && (q.Fetch == nil || a.Fetch != nil) &&
		(q.Neighbours == nil || a.Neighbours != nil) && (q.Clock == nil || a.Clock != nil) &&
		(q.Endpoint == nil || a.Endpoint != nil)
}

// Validate refuses what no child of ours answers.
func (a Response) Validate() error {
	var all []error
	if a.Error != nil {
		all = append(all, a.Error.Validate())
	}
	if a.Certificate != nil {
		all = append(all, a.Certificate.validate())
	}
	if a.Lookup != nil {
		for _, addr := range a.Lookup.Addresses {
			all = append(all, cause.ValidateAddr(addr))
		}
	}
	if a.Fetch != nil {
		all = append(all, a.Fetch.validate())
	}
	if a.Neighbours != nil {
		all = append(all, a.Neighbours.validate())
	}
	if a.Endpoint != nil {
		all = append(all, a.Endpoint.Details.Validate(), cause.ValidateAddr(a.Endpoint.LastAddr.Addr()))
	}
	return errors.Join(all...)
}

// Sanitized is the answer with texts that are bounded and may be printed: they are
// the network's.
func (a Response) Sanitized() Response {
	if a.Certificate != nil {
		a.Certificate.sanitize()
	}
	if a.Lookup != nil {
		a.Lookup.sanitize()
	}
	if a.Fetch != nil {
		a.Fetch.sanitize()
	}
	if a.Neighbours != nil {
		a.Neighbours.sanitize()
	}
	if a.Endpoint != nil {
		a.Endpoint.sanitize()
	}
	return a
}
