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

// MaxSums bounds the sums of one [News]; what is beyond waits for the next.
const MaxSums = 256

// MaxTook bounds how long one challenge can have taken: the bounds of a request add up
// to less.
const MaxTook = 10 * time.Minute

// Word is what the gate tells the keeper: one field is set.
type Word struct {
	Alive   *Alive   `json:"alive,omitempty"`
	Gone    *Gone    `json:"gone,omitempty"`
	Drained *Drained `json:"drained,omitempty"`
	Probed  *Probed  `json:"probed,omitempty"`
	News    *News    `json:"news,omitempty"`
	Told    *Told    `json:"told,omitempty"`
}

// Alive comes while every loop of the gate does its work.
type Alive struct{}

// Gone tells that the gate has closed a port that it was to leave.
type Gone struct {
	Port uint16 `json:"port"`
}

// Drained ends a [Drain]. Cut is how many connections could not be ended in time.
type Drained struct {
	Cut int `json:"cut,omitempty"`
}

// Check refuses what no gate of ours reports.
func (d *Drained) Check() error {
	if d.Cut < 0 || d.Cut > maxCount {
		return fmt.Errorf("%w: %d connections", errUnbelievable, d.Cut)
	}
	return nil
}

// Probed is the answer to [Probe], in the order of the settings.
type Probed struct {
	Found []Reachability `json:"found"`
}

// Told ends the answer to [Tell].
type Told struct{}

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

// News is what has happened since the last News.
type News struct {
	Challenges  []Challenge             `json:"challenges,omitempty"`  // the last of them, oldest first
	Sums        []report.ForwardedCount `json:"sums,omitempty"`        // of all challenges
	Undelivered bool                    `json:"undelivered,omitempty"` // one of all these did not reach the ingress
	Refused     []report.RefusalCount   `json:"refused,omitempty"`
	Failures    uint64                  `json:"failures,omitempty"`    // of accept(2), since the gate started
	LastFailure uint16                  `json:"lastFailure,omitempty"` // the system's number of the last of them
}

const (
	maxRefusals = 64      // by asker
	maxCount    = 1 << 20 // more than a gate can serve between two messages
	maxErrno    = 4095
	maxToken    = 8
	maxProbed   = 64
)

var errUnbelievable = errors.New("the gate says what it cannot have seen")

// Check refuses news that no gate of ours would tell: what they hold goes into
// the journal and to whoever asks for the status.
func (n *News) Check() error {
	switch {
	case len(n.Challenges) > MaxChallenges:
		return fmt.Errorf("%w: %d challenges at once", errUnbelievable, len(n.Challenges))
	case len(n.Refused) > maxRefusals:
		return fmt.Errorf("%w: %d kinds of refusals", errUnbelievable, len(n.Refused))
	case len(n.Sums) > MaxSums:
		return fmt.Errorf("%w: %d sums", errUnbelievable, len(n.Sums))
	case n.Failures > maxCount, n.LastFailure > maxErrno:
		return fmt.Errorf("%w: %d failures, the last %d", errUnbelievable, n.Failures, n.LastFailure)
	}
	for _, r := range n.Refused {
		if !r.Refusal.Known() || !r.ClientKind.Known() || r.ClientKind != report.OtherClient && !r.Refusal.HeadParsed() || r.Count > maxCount {
			return fmt.Errorf("%w: %d refusals of a kind", errUnbelievable, r.Count)
		}
	}
	if !slices.ContainsFunc(n.Sums, func(s report.ForwardedCount) bool { return !countable(&s) }) {
		return n.checkChallenges()
	}
	return fmt.Errorf("%w: a sum of requests that cannot have been", errUnbelievable)
}

// countable holds for a sum that labels of fixed sets can be made of.
func countable(s *report.ForwardedCount) bool {
	return s.ClientKind.Known() && s.Outcome.Known() && (s.Cause == "" || cause.KnownCause(s.Cause)) &&
		s.Count > 0 && s.Count <= maxCount && s.Bucket >= report.FirstBucket && s.Bucket <= report.LastBucket && plausible(s)
}

// plausible holds where all requests of a sum can have taken what its bucket says.
// Durations beyond the last bucket count in it.
func plausible(s *report.ForwardedCount) bool {
	most := MaxTook
	if s.Bucket < report.LastBucket {
		most = report.BucketUpperBound(s.Bucket)
	}
	least := time.Duration(0)
	if s.Bucket > report.FirstBucket {
		least = report.BucketUpperBound(s.Bucket - 1)
	}
	return s.TotalDuration >= 0 && inRange(s.TotalDuration.Seconds()/float64(s.Count), least, most)
}

// inRange leaves room for what is lost with floating point.
func inRange(seconds float64, least, most time.Duration) bool {
	const slack = 1e-6
	return seconds >= least.Seconds()*(1-slack)-slack && seconds <= most.Seconds()*(1+slack)+slack
}

func (n *News) checkChallenges() error {
	for i := range n.Challenges {
		if err := n.Challenges[i].check(); err != nil {
			return fmt.Errorf("%w: %w", errUnbelievable, err)
		}
	}
	return nil
}

// Check refuses what no ingress address can have said.
func (p *Probed) Check() error {
	if len(p.Found) > maxProbed {
		return fmt.Errorf("%w: %d addresses", errUnbelievable, len(p.Found))
	}
	for _, f := range p.Found {
		err := cause.CheckAddr(f.Addr.Addr())
		if err == nil && f.Failure != nil {
			err = f.Failure.Check()
		}
		if err != nil {
			return fmt.Errorf("%w: %w", errUnbelievable, err)
		}
	}
	return nil
}

var errFields = errors.New("a challenge with fields that no request leaves")

func (c *Challenge) check() error {
	known := c.ClientKind.Known() && c.Outcome.Known() && (c.Method == "GET" || c.Method == "HEAD") //nolint:usestdlibvars // this process does not link net/http
	if !known || !isHost(c.Host) || !isToken(c.TokenPrefix) || c.Duration < 0 || c.Duration > MaxTook || c.Status < 0 || c.Status >= 1000 {
		return errFields
	}
	if c.Failure != nil {
		if err := c.Failure.Check(); err != nil {
			return err
		}
	}
	return errors.Join(cause.CheckAddr(c.VIP), cause.CheckAddr(c.Client.Addr()), cause.CheckAddr(c.Upstream.Addr()))
}

// isHost holds for a Host field in canonical form, with or without a port, and for
// none.
func isHost(s string) bool {
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
	return s == "" || cause.IsName(name)
}

// isToken holds for the beginning of a token that was judged: printable ASCII.
func isToken(s string) bool {
	return len(s) <= maxToken && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}

// Context is what the process that gives these orders knows of a failure by itself.
func Context(c *Configure, t *Trust, e *Egress) cause.Context {
	known := cause.Context{}
	if c != nil {
		known.Names = c.VerifyNames
	}
	if t != nil {
		known.Trusted = t.About
	}
	if e == nil || len(e.Through) == 0 {
		return known
	}
	known.Proxies = e.Proxies.About
	if len(e.Beyond.Roots) > 0 {
		known.Beyond = e.Beyond.About
	}
	known.Via = make(map[netip.AddrPort]cause.Proxy, len(e.Through))
	for _, t := range e.Through {
		p := cause.Proxy{Name: t.Proxy.Name}
		if len(t.Proxy.Addrs) > 0 {
			p.Port = t.Proxy.Addrs[0].Port()
		}
		known.Via[netip.AddrPortFrom(t.Ingress.Addr().Unmap(), t.Ingress.Port())] = p
	}
	return known
}
