// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// MaxChallenges bounds the challenges that one [News] tells in full.
const MaxChallenges = 32

// MaxRequestSums bounds the sums of one [News]; what is beyond waits for the next.
const MaxRequestSums = 256

// MaxRequestDuration bounds how long one challenge can have taken: the bounds of a request add up
// to less.
const MaxRequestDuration = 10 * time.Minute

// Event is what the gate tells the keeper: one field is set.
type Event struct {
	Heartbeat     *Heartbeat     `json:"alive,omitempty"`
	Stopped       *Stopped       `json:"gone,omitempty"`
	Drained       *Drained       `json:"drained,omitempty"`
	IngressProbed *IngressProbed `json:"probed,omitempty"`
	Stats         *Stats         `json:"news,omitempty"`
	Flushed       *Flushed       `json:"told,omitempty"`
}

// Heartbeat comes while every loop of the gate does its work.
type Heartbeat struct{}

// Stopped tells that the gate has closed a port that it was to leave.
type Stopped struct {
	Port uint16 `json:"port"`
}

// Drained ends a [Drain]. Cut is how many connections could not be ended in time.
type Drained struct {
	Cut int `json:"cut,omitempty"`
}

// Validate refuses what no gate of ours reports.
func (d *Drained) Validate() error {
	if d.Cut < 0 || d.Cut > maxCount {
		return fmt.Errorf("%w: %d connections", errInvalidEvent, d.Cut)
	}
	return nil
}

// IngressProbed is the answer to [Probe], in the order of the settings.
type IngressProbed struct {
	Results []Reachability `json:"found"`
}

// Flushed ends the answer to [Tell].
type Flushed struct{}

// Reachability is what one ingress address said to a connection attempt.
type Reachability struct {
	Addr    netip.AddrPort `json:"addr"`
	Failure *cause.Failure `json:"failure,omitempty"` // nil when it accepted
}

// Challenge is a challenge request as the gate saw it end, but for what the
// controller adds: when that was, and the sentences about it.
type Challenge struct {
	report.Challenge

	Failure *cause.Failure `json:",omitempty"` // nil when all went well
}

// Stats is what has happened since the last News.
type Stats struct {
	Challenges      []Challenge             `json:"challenges,omitempty"`  // the last of them, oldest first
	Sums            []report.ForwardedCount `json:"sums,omitempty"`        // of all challenges
	UpstreamFailed  bool                    `json:"undelivered,omitempty"` // one of all these did not reach the ingress
	Refused         []report.RefusalCount   `json:"refused,omitempty"`
	AcceptFailures  uint64                  `json:"failures,omitempty"`    // of accept(2), since the gate started
	LastAcceptErrno uint16                  `json:"lastFailure,omitempty"` // the system's number of the last of them
}

const (
	maxRefusalSums     = 64      // by asker
	maxCount           = 1 << 20 // more than a gate can serve between two messages
	maxErrno           = 4095
	maxTokenPrefix     = 8
	maxProbedAddresses = 64
)

var errInvalidEvent = errors.New("the gate says what it cannot have seen")

// Validate refuses news that no gate of ours would tell: what they hold goes into
// the journal and to whoever asks for the status.
func (n *Stats) Validate() error {
	switch {
	case len(n.Challenges) > MaxChallenges:
		return fmt.Errorf("%w: %d challenges at once", errInvalidEvent, len(n.Challenges))
	case len(n.Refused) > maxRefusalSums:
		return fmt.Errorf("%w: %d kinds of refusals", errInvalidEvent, len(n.Refused))
	case len(n.Sums) > MaxRequestSums:
		return fmt.Errorf("%w: %d sums", errInvalidEvent, len(n.Sums))
	case n.AcceptFailures > maxCount, n.LastAcceptErrno > maxErrno:
		return fmt.Errorf("%w: %d failures, the last %d", errInvalidEvent, n.AcceptFailures, n.LastAcceptErrno)
	}
	for _, r := range n.Refused {
		if !r.Refusal.Known() || !r.ClientKind.Known() || r.ClientKind != report.OtherClient && !r.Refusal.HeadParsed() || r.Count > maxCount {
			return fmt.Errorf("%w: %d refusals of a kind", errInvalidEvent, r.Count)
		}
	}
	if !slices.ContainsFunc(n.Sums, func(s report.ForwardedCount) bool { return !validSum(&s) }) {
		return n.validateChallenges()
	}
	return fmt.Errorf("%w: a sum of requests that cannot have been", errInvalidEvent)
}

// validSum holds for a sum that labels of fixed sets can be made of.
func validSum(s *report.ForwardedCount) bool {
	return s.ClientKind.Known() && s.Outcome.Known() && (s.Cause == "" || cause.IsKnown(s.Cause)) &&
		s.Count > 0 && s.Count <= maxCount && s.Bucket >= report.FirstBucket && s.Bucket <= report.LastBucket && validDuration(s)
}

// validDuration holds where all requests of a sum can have taken what its bucket says.
// Durations beyond the last bucket count in it.
func validDuration(s *report.ForwardedCount) bool {
	most := MaxRequestDuration
	if s.Bucket < report.LastBucket {
		most = report.BucketUpperBound(s.Bucket)
	}
	least := time.Duration(0)
	if s.Bucket > report.FirstBucket {
		least = report.BucketUpperBound(s.Bucket - 1)
	}
	return s.TotalDuration >= 0 && withinBounds(s.TotalDuration.Seconds()/float64(s.Count), least, most)
}

// withinBounds leaves room for what is lost with floating point.
func withinBounds(seconds float64, least, most time.Duration) bool {
	const slack = 1e-6
	return seconds >= least.Seconds()*(1-slack)-slack && seconds <= most.Seconds()*(1+slack)+slack
}

func (n *Stats) validateChallenges() error {
	for i := range n.Challenges {
		if err := n.Challenges[i].validate(); err != nil {
			return fmt.Errorf("%w: %w", errInvalidEvent, err)
		}
	}
	return nil
}

// Validate refuses what no ingress address can have said.
func (p *IngressProbed) Validate() error {
	if len(p.Results) > maxProbedAddresses {
		return fmt.Errorf("%w: %d addresses", errInvalidEvent, len(p.Results))
	}
	for _, f := range p.Results {
		err := cause.ValidateAddr(f.Addr.Addr())
		if err == nil && f.Failure != nil {
			err = f.Failure.Validate()
		}
		if err != nil {
			return fmt.Errorf("%w: %w", errInvalidEvent, err)
		}
	}
	return nil
}

var errInvalidChallenge = errors.New("a challenge with fields that no request leaves")

func (c *Challenge) validate() error {
	known := c.ClientKind.Known() && c.Outcome.Known() && (c.Method == "GET" || c.Method == "HEAD") //nolint:usestdlibvars // this process does not link net/http
	if !known || !isHostField(c.Host) || !isTokenPrefix(c.TokenPrefix) || c.Duration < 0 || c.Duration > MaxRequestDuration || c.Status < 0 || c.Status >= 1000 {
		return errInvalidChallenge
	}
	if c.Failure != nil {
		if err := c.Failure.Validate(); err != nil {
			return err
		}
	}
	return errors.Join(cause.ValidateAddr(c.VIP), cause.ValidateAddr(c.Client.Addr()), cause.ValidateAddr(c.Upstream.Addr()))
}

// isHostField holds for a Host field in canonical form, with or without a port, and for
// none.
func isHostField(s string) bool {
	if _, err := netip.ParseAddrPort(s); err == nil {
		return !strings.Contains(s, "%")
	}
	if literal, is := strings.CutPrefix(s, "["); is {
		addr, err := netip.ParseAddr(strings.TrimSuffix(literal, "]"))
		return err == nil && addr.Zone() == "" && strings.HasSuffix(literal, "]")
	}
	name, port, with := strings.Cut(s, ":")
	if with {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return false
		}
	}
	return s == "" || cause.IsHostname(name)
}

// isTokenPrefix holds for the beginning of a token that was judged: printable ASCII.
func isTokenPrefix(s string) bool {
	return len(s) <= maxTokenPrefix && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}
