// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// MaxChallenges bounds the challenges of one [Stats].
const MaxChallenges = 32

// MaxRequestSums bounds the sums of one [Stats]. The next one reports the others.
const MaxRequestSums = 256

// MaxRequestDuration bounds the duration of one challenge. The timeouts of a request add
// up to less.
const MaxRequestDuration = 10 * time.Minute

// Event is a message of the proxy. Exactly one field is set.
type Event struct {
	Heartbeat     *Heartbeat     `json:"heartbeat,omitempty"`
	Stopped       *Stopped       `json:"stopped,omitempty"`
	Drained       *Drained       `json:"drained,omitempty"`
	IngressProbed *IngressProbed `json:"ingressProbed,omitempty"`
	Stats         *Stats         `json:"stats,omitempty"`
	Flushed       *Flushed       `json:"flushed,omitempty"`
	VIPsTested    *VIPsTested    `json:"vipsTested,omitempty"`
}

// Validate rejects an event that no proxy of this program sends: its values reach the
// journal and the status.
func (e *Event) Validate() (err error) {
	switch {
	case e.Drained != nil && (e.Drained.Cut < 0 || e.Drained.Cut > maxCount):
		err = fmt.Errorf("%d connections", e.Drained.Cut)
	case e.IngressProbed != nil:
		err = e.IngressProbed.validate()
	case e.Stats != nil:
		err = e.Stats.Validate()
	case e.VIPsTested != nil:
		err = e.VIPsTested.validate()
	default:
	}
	if err != nil {
		return fmt.Errorf("invalid event of the proxy: %w", err)
	}
	return nil
}

// Heartbeat reports that every loop of the proxy makes progress.
type Heartbeat struct{}

// Stopped reports that the proxy closed a port after [StopListening].
type Stopped struct {
	Port uint16 `json:"port"`
}

// Drained answers [Drain]. Cut counts the connections that did not end in time.
type Drained struct {
	Cut int `json:"cut,omitempty"`
}

// IngressProbed answers [ProbeIngress], in the order of the configured addresses.
type IngressProbed struct {
	Results []Reachability `json:"results"`
}

// Flushed is the last event that answers [Flush], and the only one that answers [SelfTest].
type Flushed struct{}

// Reachability is the result of a connection attempt to one ingress address.
type Reachability struct {
	Addr    netip.AddrPort `json:"addr"`
	Failure *cause.Failure `json:"failure,omitempty"` // nil: the address accepted the connection
}

// MaxTestedVIPs bounds the VIPs of one [TestVIPs].
const MaxTestedVIPs = 64

// VIPsTested answers [TestVIPs], in the order of its VIPs.
type VIPsTested struct {
	Results []VIPTested `json:"results"`
}

// VIPTested is how the test request to one VIP ended.
type VIPTested struct {
	VIP      netip.Addr           `json:"vip"`
	Result   report.VIPTestResult `json:"result"`             // of one request: never VIPTwoHosts
	Instance uint64               `json:"instance,omitempty"` // that answered; 0: none, or an older release
}

// Challenge is a finished challenge request, without what the controller adds: its time
// and its sentences.
type Challenge struct {
	report.Challenge

	Failure *cause.Failure `json:",omitempty"` // nil: no failure
}

// Stats reports the requests since the last Stats.
type Stats struct {
	Challenges      []Challenge             `json:"challenges,omitempty"`     // some of the challenges, oldest first
	Sums            []report.ForwardedCount `json:"sums,omitempty"`           // of all challenges
	UpstreamFailed  bool                    `json:"upstreamFailed,omitempty"` // a challenge did not reach the ingress
	Rejected        []report.RejectionCount `json:"rejected,omitempty"`
	AcceptFailures  uint64                  `json:"acceptFailures,omitempty"`  // of accept(2)
	LastAcceptErrno uint16                  `json:"lastAcceptErrno,omitempty"` // error number of the last failure
	// SelfTest is the last one that was announced. None of the others includes it.
	SelfTest *SelfTested `json:"selfTest,omitempty"`
	// TestRequests carry no times. The zero address counts further sources.
	TestRequests []report.TestSource `json:"testRequests,omitempty"`
}

// SelfTested is how the request of a [SelfTest] ended.
type SelfTested struct {
	ID       uint64         `json:"id"`
	Status   int            `json:"status"` // that the client received; 0: the client disconnected before
	Upstream netip.AddrPort `json:"upstream"`
	Failure  *cause.Failure `json:"failure,omitempty"` // nil: no failure
}

const (
	maxRejectionSums = 64 // by client kind
	// maxCount is more than a proxy serves in WatchdogSec of the unit, the longest stall of the controller.
	maxCount           = 1 << 22
	maxErrno           = 4095
	maxTokenPrefix     = 8
	maxProbedAddresses = 64
)

// Validate rejects statistics that no proxy of this program reports.
func (s *Stats) Validate() error {
	switch {
	case len(s.Challenges) > MaxChallenges:
		return fmt.Errorf("%d challenges", len(s.Challenges))
	case len(s.Rejected) > maxRejectionSums:
		return fmt.Errorf("%d kinds of rejections", len(s.Rejected))
	case len(s.Sums) > MaxRequestSums:
		return fmt.Errorf("%d sums", len(s.Sums))
	case len(s.TestRequests) > report.MaxTestSources+1:
		return fmt.Errorf("%d sources of test requests", len(s.TestRequests))
	case s.AcceptFailures > maxCount, s.LastAcceptErrno > maxErrno:
		return fmt.Errorf("%d accept failures, error number %d", s.AcceptFailures, s.LastAcceptErrno)
	}
	for _, r := range s.Rejected {
		if !r.Rejection.Known() || !r.ClientKind.Known() || r.Count == 0 || r.Count > maxCount ||
			r.ClientKind != report.OtherClient && !r.Rejection.HeadParsed() {
			return fmt.Errorf("invalid count of rejections: %d", r.Count)
		}
	}
	for _, r := range s.TestRequests {
		if r.Count == 0 || r.Count > maxCount || r.Address.Zone() != "" {
			return errors.New("invalid count of test requests")
		}
	}
	for i := range s.Sums {
		if !validSum(&s.Sums[i]) {
			return errors.New("invalid sum of requests")
		}
	}
	for i := range s.Challenges {
		if err := s.Challenges[i].validate(); err != nil {
			return err
		}
	}
	return s.SelfTest.validate()
}

// validSum reports whether all labels of a sum are from fixed sets, and its numbers are possible.
func validSum(s *report.ForwardedCount) bool {
	return s.ClientKind.Known() && s.Outcome.Known() && (s.Cause == "" || cause.IsKnown(s.Cause)) &&
		s.Count > 0 && s.Count <= maxCount && s.Bucket >= report.FirstBucket && s.Bucket <= report.LastBucket &&
		s.TotalDuration >= 0 && s.TotalDuration <= time.Duration(s.Count)*MaxRequestDuration
}

func (p *IngressProbed) validate() error {
	if len(p.Results) > maxProbedAddresses {
		return fmt.Errorf("%d addresses", len(p.Results))
	}
	for _, f := range p.Results {
		if err := errors.Join(cause.ValidateAddr(f.Addr.Addr()), f.Failure.Validate()); err != nil {
			return err
		}
	}
	return nil
}

func (t *VIPsTested) validate() error {
	if len(t.Results) > MaxTestedVIPs {
		return fmt.Errorf("%d tested VIPs", len(t.Results))
	}
	for _, r := range t.Results {
		if r.VIP.Zone() != "" || !r.Result.Known() || r.Result == report.VIPTwoHosts ||
			r.Instance != 0 && r.Result != report.VIPAnswered {
			return errors.New("invalid result of a test request")
		}
	}
	return nil
}

// validate accepts nil.
func (t *SelfTested) validate() error {
	switch {
	case t == nil:
		return nil
	case t.Status < 0 || t.Status >= 1000:
		return errInvalidChallenge
	default:
		return errors.Join(t.Failure.Validate(), cause.ValidateAddr(t.Upstream.Addr()))
	}
}

var errInvalidChallenge = errors.New("invalid challenge")

func (c *Challenge) validate() error {
	method := c.Method == "GET" || c.Method == "HEAD" //nolint:usestdlibvars // this process does not link net/http
	if !method || !c.ClientKind.Known() || !c.Outcome.Known() || !isHostField(c.Host) || !isTokenPrefix(c.TokenPrefix) ||
		c.Duration < 0 || c.Duration > MaxRequestDuration || c.Status < 0 || c.Status >= 1000 {
		return errInvalidChallenge
	}
	return errors.Join(c.Failure.Validate(), cause.ValidateAddr(c.VIP), cause.ValidateAddr(c.Client.Addr()),
		cause.ValidateAddr(c.Upstream.Addr()))
}

// isHostField reports whether s is empty or a Host field in canonical form, with or
// without a port.
func isHostField(s string) bool {
	for _, withPort := range [...]string{s, s + ":80"} {
		if addr, err := netip.ParseAddrPort(withPort); err == nil {
			return addr.Addr().Zone() == ""
		}
	}
	name, port, with := strings.Cut(s, ":")
	if n, err := strconv.ParseUint(port, 10, 16); with && (err != nil || n == 0) {
		return false
	}
	return s == "" || cause.IsHostname(name)
}

// isTokenPrefix reports whether s is the beginning of a token: printable ASCII.
func isTokenPrefix(s string) bool {
	return len(s) <= maxTokenPrefix && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}
