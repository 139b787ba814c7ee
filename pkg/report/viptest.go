// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// VIPTestResult is how a test request of this host to port 80 of an API VIP ended, which
// another host holds. The set of values is fixed.
type VIPTestResult string

// OnlyChallenges is the body of the response to a request that is no challenge. Its bytes are
// part of the interface of the service.
const OnlyChallenges = "Only /.well-known/acme-challenge/* is allowed"

// TestPath is the path of test requests. The response is that for any other path outside
// of challenges, with one field more.
const TestPath = "/http01-proxyd/vip-test"

// TestUserAgent is the User-Agent of test requests between hosts.
const TestUserAgent = "http01-proxyd-test"

// The results of a test request.
const (
	VIPAnswered    VIPTestResult = "answered"     // the service on another host answered, also an older release
	VIPRefused     VIPTestResult = "refused"      // the connection was refused
	VIPReset       VIPTestResult = "reset"        // the connection was reset before the response was complete
	VIPTimedOut    VIPTestResult = "timed-out"    // no connection or no response in time, or no host has the address
	VIPOtherAnswer VIPTestResult = "other-answer" // another program answered
	VIPTwoHosts    VIPTestResult = "two-hosts"    // two hosts answered at the same time
	VIPNotSent     VIPTestResult = "not-sent"     // this host's own rules or routes did not let the request out
)

// VIPTestResults returns all results, in display order.
func VIPTestResults() []VIPTestResult {
	return []VIPTestResult{VIPAnswered, VIPRefused, VIPReset, VIPTimedOut, VIPOtherAnswer, VIPTwoHosts, VIPNotSent}
}

// Known reports whether r is one of the results.
func (r VIPTestResult) Known() bool { return slices.Contains(VIPTestResults(), r) }

// Describe describes a result in a few words, as the continuation of a sentence.
func (r VIPTestResult) Describe() string {
	return map[VIPTestResult]string{
		VIPAnswered:    "http01-proxyd answers",
		VIPRefused:     "the connection is refused",
		VIPReset:       "the connection is closed before the response is complete",
		VIPTimedOut:    "there is no answer in time, or no host has the address",
		VIPOtherAnswer: "another program answers",
		VIPTwoHosts:    "two hosts answer",
		VIPNotSent:     "its own rules or routes do not let the request out",
	}[r]
}

// VIPTest is the result of the latest test requests to an API VIP that this host does not
// hold.
type VIPTest struct {
	VIP     netip.Addr    `json:"vip"`
	Result  VIPTestResult `json:"result"`
	Since   time.Time     `json:"since"`   // of this result or the first equal one: UTC, in whole seconds
	Checked time.Time     `json:"checked"` // UTC, in whole seconds
	// Instance is the ID of the service that answered last, 16 hexadecimal digits; empty if
	// none did, or an older release. A service has another ID after each start.
	Instance string `json:"instance,omitempty"`
	// InstanceSince is the first response with this ID: UTC, in whole seconds.
	InstanceSince time.Time `json:"instanceSince,omitzero"`
	// Failures counts the failed tests in a row. Three of them are a finding.
	Failures int    `json:"failures"`
	Cause    string `json:"cause,omitempty"` // ID of the finding; empty without one
	Error    string `json:"error,omitempty"` // its message
}

// DescribeTests describes what tests between hosts have shown of a VIP. Where it is held, these
// are the hosts that have reached it lately. Elsewhere it is the test of this host, which it
// returns too. The text is empty without a test.
func (r Report) DescribeTests(v VIP, now time.Time) (t VIPTest, text string) {
	if v.State == VIPHeld {
		return VIPTest{}, r.TestRequests.describe(v, now)
	}
	i := slices.IndexFunc(r.VIPTests, func(t VIPTest) bool { return t.VIP == v.Address })
	if i < 0 {
		return VIPTest{}, ""
	}
	t = r.VIPTests[i]
	text = t.Result.Describe()
	switch {
	case t.Result == VIPAnswered && t.Cause == "":
		text = "reachable from here"
	case t.Cause != "" && t.Failures > 0:
		text += fmt.Sprintf(", %d times in a row", t.Failures)
	}
	return t, fmt.Sprintf("%s (%s ago)", text, Age(now.Sub(t.Checked)))
}

// TestRequests counts the test requests that this host received from others. Anybody can
// send them: they affect nothing but these numbers.
type TestRequests struct {
	Total   uint64       `json:"total"`   // since the start of the service
	Sources []TestSource `json:"sources"` // at most MaxTestSources, by address
	Others  uint64       `json:"others"`  // from further sources
}

// RecentTest is how long a test request shows that its host tests the VIPs: several intervals of
// the default configuration.
const RecentTest = time.Minute

// MaxTestSources bounds the sources of test requests that are counted apart.
const MaxTestSources = 16

// TestSource is a host that sent test requests.
type TestSource struct {
	Address netip.Addr `json:"address"`
	Count   uint64     `json:"count"`
	Last    time.Time  `json:"last"` // UTC, in whole seconds
}

// describe names the hosts of the VIP's family that have sent test requests lately, since this host holds it.
func (r TestRequests) describe(v VIP, now time.Time) string {
	var sources []string
	var last time.Time
	for _, s := range r.Sources {
		held := s.Last.Add(time.Second).After(v.Since) // Last is in whole seconds
		if s.Address.Is4() == v.Address.Is4() && now.Sub(s.Last) < RecentTest && held {
			sources = append(sources, s.Address.String())
			if s.Last.After(last) {
				last = s.Last
			}
		}
	}
	if len(sources) == 0 {
		return ""
	}
	return fmt.Sprintf("reachable from %s (%s ago)", strings.Join(sources, ", "), Age(now.Sub(last)))
}

// DescribeTests names the nodes that do not reach port 80 of the VIP from outside its holder, and
// those that do.
func (v ClusterVIP) DescribeTests(now time.Time) string {
	unreachable := "not reachable from " + strings.Join(v.UnreachableFrom, ", ")
	reachable := fmt.Sprintf("reachable from %s (%s ago)", strings.Join(v.ReachableFrom, ", "), Age(now.Sub(v.Tested)))
	switch {
	case len(v.UnreachableFrom) > 0 && len(v.ReachableFrom) > 0:
		return unreachable + "; " + reachable
	case len(v.UnreachableFrom) > 0:
		return unreachable
	case len(v.ReachableFrom) > 0:
		return reachable
	case !v.Tested.IsZero():
		return fmt.Sprintf("no answer to another node's last test (%s ago)", Age(now.Sub(v.Tested)))
	}
	return "not tested by another node"
}
