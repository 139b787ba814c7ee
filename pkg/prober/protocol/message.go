// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"errors"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
)

// Request is a message to the prober process. Exactly one payload is set.
type Request struct {
	ID      uint64        `json:"id"`
	Timeout time.Duration `json:"timeout"` // for the result

	Certificate *CertificateRequest `json:"certificate,omitempty"`
	Lookup      *LookupRequest      `json:"lookup,omitempty"`
	Fetch       *FetchRequest       `json:"fetch,omitempty"`
	Clock       *ClockRequest       `json:"clock,omitempty"`
	Endpoint    *EndpointRequest    `json:"endpoint,omitempty"`
	Trace       *TraceRequest       `json:"trace,omitempty"` // its socket comes with it
}

// Response answers the [Request] with the same ID. Exactly one payload is set: Error, or
// the field with the name of the request's. The prober process composes no text.
//
// These fields are text from the network that becomes part of a finding: Issuer of a
// [Certificate]; Server, ProxyStatus, Via, Location, ContentType and Body of a [FetchResult].
// [Response.Sanitize] makes each a bounded line of printable characters, except Body. A caller
// that prints one quotes it and names its source.
type Response struct {
	ID uint64 `json:"id"`

	Error       *cause.Details  `json:"error,omitempty"` // why there is no result
	Certificate *Certificate    `json:"certificate,omitempty"`
	Lookup      *LookupResult   `json:"lookup,omitempty"`
	Fetch       *FetchResult    `json:"fetch,omitempty"`
	Clock       *ClockResult    `json:"clock,omitempty"`
	Endpoint    *EndpointResult `json:"endpoint,omitempty"`
	Trace       *TraceResult    `json:"trace,omitempty"`
}

// Matches reports whether the response is of the request's kind.
func (r *Response) Matches(q *Request) bool {
	return (q.Certificate == nil || r.Certificate != nil) && (q.Lookup == nil || r.Lookup != nil) &&
		(q.Fetch == nil || r.Fetch != nil) &&
		(q.Clock == nil || r.Clock != nil) && (q.Endpoint == nil || r.Endpoint != nil) &&
		(q.Trace == nil || r.Trace != nil)
}

// Validate rejects a response that no prober process of this program sends.
func (r *Response) Validate() error {
	switch {
	case r.Error != nil:
		return r.Error.Validate()
	case r.Certificate != nil:
		return r.Certificate.validate()
	case r.Lookup != nil:
		return r.Lookup.validate()
	case r.Fetch != nil:
		return r.Fetch.validate()
	case r.Endpoint != nil:
		return errors.Join(r.Endpoint.Details.Validate(), cause.ValidateAddr(r.Endpoint.LastAddr.Addr()))
	case r.Trace != nil:
		return r.Trace.validate()
	default:
		return nil
	}
}

// Sanitize bounds texts and numbers of the network, and makes the texts printable.
func (r *Response) Sanitize() {
	switch {
	case r.Certificate != nil:
		r.Certificate.sanitize()
	case r.Lookup != nil:
		r.Lookup.sanitize()
	case r.Fetch != nil:
		r.Fetch.sanitize()
	case r.Endpoint != nil:
		r.Endpoint.sanitize()
	}
}

// maxText bounds a text of the network, in bytes.
const maxText = 512
