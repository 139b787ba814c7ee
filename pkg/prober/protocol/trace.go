// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
)

// TraceRequest requests events of the kernel's packet trace from the netlink socket that
// comes with it.
type TraceRequest struct {
	Wait time.Duration `json:"wait"` // for the first event; without one, the result is empty
}

// TraceResult contains the events of a [TraceRequest], oldest first.
type TraceResult struct {
	Records []TraceRecord `json:"records"` // at most MaxTraceRecords
	// Lost counts how often the kernel dropped events because its buffer was full.
	Lost uint64 `json:"lost"`
}

// MaxTraceRecords bounds the records of one response.
const MaxTraceRecords = 128

// maxTraceName is NFT_NAME_MAXLEN of linux/netfilter/nf_tables.h.
const maxTraceName = 256

// TraceKind is the kind of an event (enum nft_trace_types of linux/netfilter/nf_tables.h).
type TraceKind uint8

// The kinds of events.
const (
	TracePolicy TraceKind = 1 // no rule of a base chain decided
	TraceReturn TraceKind = 2 // from a chain to the one that jumped to it
	TraceRule   TraceKind = 3 // a rule matched
)

// These are the verdicts of an event, from linux/netfilter.h and, below 0, from
// linux/netfilter/nf_tables.h.
const (
	VerdictDrop     int32 = 0
	VerdictAccept   int32 = 1
	VerdictStolen   int32 = 2
	VerdictQueue    int32 = 3
	VerdictContinue int32 = -1
	VerdictJump     int32 = -3
	VerdictGoto     int32 = -4
	VerdictReturn   int32 = -5
)

// TraceRecord is one event of the kernel: a rule that matched, the return from a chain, or
// the policy of a base chain. Table and chain are names that an administrator chose; the
// receiver compares them with those that it read from the kernel itself.
type TraceRecord struct {
	Packet  uint32       `json:"packet"` // the kernel's number of the packet; it is reused
	Kind    TraceKind    `json:"kind"`
	Family  uint8        `json:"family"` // of the table (NFPROTO_*)
	Table   string       `json:"table"`
	Chain   string       `json:"chain"`
	Handle  uint64       `json:"handle,omitempty"` // of the rule
	Verdict int32        `json:"verdict"`          // of the rule or the policy
	In      uint32       `json:"in,omitempty"`     // index of the device by which the packet arrived
	Out     uint32       `json:"out,omitempty"`    // index of the device by which it leaves
	Header  *TraceHeader `json:"header,omitempty"` // in the first event of each base chain
}

// TraceHeader is what the trace needs of the headers of a TCP packet.
type TraceHeader struct {
	Source      netip.AddrPort `json:"source"`
	Destination netip.AddrPort `json:"destination"`
	Sequence    uint32         `json:"sequence"`
	Flags       uint8          `json:"flags"` // RFC 9293 section 3.1, from FIN (1) to CWR (128)
}

func (t *TraceResult) validate() error {
	if len(t.Records) > MaxTraceRecords {
		return fmt.Errorf("%w: %d trace records", cause.ErrInvalid, len(t.Records))
	}
	for i := range t.Records {
		if err := t.Records[i].Validate(); err != nil {
			return err
		}
	}
	return nil
}

// Validate returns an error that wraps [cause.ErrInvalid] for a record that no event of a TCP packet gives.
func (r *TraceRecord) Validate() error {
	switch {
	case r.Kind < TracePolicy || r.Kind > TraceRule, r.Verdict < VerdictReturn || r.Verdict > VerdictQueue+1:
		return fmt.Errorf("%w: trace record of kind %d with verdict %d", cause.ErrInvalid, r.Kind, r.Verdict)
	case len(r.Table) >= maxTraceName || len(r.Chain) >= maxTraceName:
		return fmt.Errorf("%w: trace record with a name of %d bytes", cause.ErrInvalid, max(len(r.Table), len(r.Chain)))
	case r.Header == nil:
		return nil
	}
	for _, end := range []netip.Addr{r.Header.Source.Addr(), r.Header.Destination.Addr()} {
		if !end.IsValid() || end.Zone() != "" || end.Is4In6() {
			return fmt.Errorf("%w: trace record with the address %v", cause.ErrInvalid, end)
		}
	}
	return nil
}
