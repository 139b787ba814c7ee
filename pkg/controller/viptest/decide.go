// SPDX-License-Identifier: Apache-2.0

package viptest

import (
	"fmt"
	"slices"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

const (
	// failureThreshold is how many failures in a row are a finding. A holder restarts, and a VIP
	// moves, within fewer.
	failureThreshold = 3
	// minFailing is how long the tests fail before a finding, also with a short interval.
	minFailing = 10 * time.Second
	// sameThreshold is how many responses of one instance in a row end the finding that two
	// hosts answer.
	sameThreshold = 3

	// firstDelay is the time until the first test after a change: a VIP that left this host
	// arrives at another one meanwhile.
	firstDelay = 3 * time.Second
	// failedInterval is the longest time between two tests after a failure.
	failedInterval = 15 * time.Second
	// followUpDelay is the time between the followUps tests after another instance answered.
	followUpDelay = time.Second
	followUps     = 5
	// sightingWindow is how long a response counts as one of two hosts.
	sightingWindow = 30 * time.Second
	maxSightings   = 16

	// A result without a finding is dropped when missedTests intervals and expiryInterval pass
	// without another one.
	missedTests    = 3
	expiryInterval = 30 * time.Second

	// resultTimeout is longer than the proxy process takes for a test.
	resultTimeout = 8 * time.Second
)

// state is what the tests of one VIP showed. The zero value is that before the first one.
type state struct {
	reported  report.VIPTest
	sightings []sighting // of the last sightingWindow, oldest first
	failing   time.Time  // the first failure of those in a row
	same      int        // responses of the last instance in a row
	followUps int        // tests that follow soon
}

// sighting is a response of the service.
type sighting struct {
	instance uint64 // 0: an older release
	at       time.Time
}

// next returns the state after a test. It does not change s.
func (s state) next(tested protocol.VIPTested, severalHolders bool, now time.Time) state {
	shown := now.UTC().Truncate(time.Second)
	r := s.reported
	r.VIP, r.Checked, r.Result = tested.VIP, shown, tested.Result
	s.followUps = max(0, s.followUps-1)
	if tested.Result == report.VIPAnswered {
		r.Failures = 0
		s.see(sighting{tested.Instance, now}, severalHolders)
		id := ""
		if tested.Instance != 0 {
			id = fmt.Sprintf("%016x", tested.Instance)
		}
		if r.Instance != id {
			r.Instance, r.InstanceSince = id, shown
		}
		if !severalHolders && (twoAnswer(s.sightings) || r.Cause == string(findings.VIPTwoHosts) && s.same < sameThreshold) {
			r.Result = report.VIPTwoHosts
		}
	} else {
		if r.Failures++; r.Failures == 1 {
			s.failing = now
		}
		if now.Sub(s.failing) < minFailing {
			r.Failures = min(r.Failures, failureThreshold-1)
		}
		s.same, s.followUps = 0, 0
	}
	if r.Result != s.reported.Result {
		r.Since = shown
	}
	f := findingOf(r)
	r.Cause, r.Error = string(f.ID), f.Message
	s.reported = r
	return s
}

// see adds a response.
func (s *state) see(now sighting, severalHolders bool) {
	last := len(s.sightings) - 1
	s.same++
	if last >= 0 && s.sightings[last].instance != now.instance {
		s.same = 1
		if !severalHolders && s.followUps == 0 && s.reported.Cause != string(findings.VIPTwoHosts) {
			s.followUps = followUps
		}
	}
	s.sightings = append(slices.Clone(s.sightings), now)
	s.sightings = slices.DeleteFunc(s.sightings, func(old sighting) bool { return now.at.Sub(old.at) > sightingWindow })
	s.sightings = s.sightings[max(0, len(s.sightings)-maxSightings):]
}

// twoAnswer reports whether two instances answered at the same time: XYXY. After a
// restart or a move it is XY, and after a move there and back XYX.
func twoAnswer(seen []sighting) bool {
	for _, x := range seen {
		for _, y := range seen {
			steps := 0
			for _, one := range seen {
				if one.instance == [...]uint64{x.instance, y.instance}[steps%2] {
					steps++
				}
			}
			if x.instance != y.instance && steps >= 4 { //nolint:mnd // XYXY
				return true
			}
		}
	}
	return false
}

// findingOf returns the finding of a result; its ID is empty if there is no fault. The cause so
// far comes from the previous result. A hostile proxy process must not replace the finding
// about the VIP by the one about this host, for which there is no alert.
func findingOf(r report.VIPTest) findings.Finding {
	values := findings.Values{"vip": r.VIP.String(), "how": r.Result.Describe()}
	switch {
	case r.Result == report.VIPTwoHosts,
		r.Cause == string(findings.VIPTwoHosts) && 0 < r.Failures && r.Failures < failureThreshold:
		return findings.New(findings.VIPTwoHosts, values)
	case r.Failures < failureThreshold:
		return findings.Finding{}
	case r.Result == report.VIPNotSent && r.Cause != string(findings.VIPUnreachableFromHere):
		return findings.New(findings.VIPTestNotSent, values)
	default:
		return findings.New(findings.VIPUnreachableFromHere, values)
	}
}

// nextDelay returns the time until the next test, before jitter.
func nextDelay[K comparable](interval time.Duration, vips map[K]state) time.Duration {
	for _, s := range vips {
		switch {
		case s.followUps > 0:
			return followUpDelay
		case s.reported.Failures > 0:
			interval = min(interval, failedInterval)
		}
	}
	return interval
}
