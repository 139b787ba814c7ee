// SPDX-License-Identifier: Apache-2.0

package report

import (
	"net/netip"
	"time"
)

// VIPTestResult is how a test request of this host to port 80 of an API VIP ended, which
// another host holds. The set of values is fixed.
type VIPTestResult string

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

// TestRequests counts the test requests that this host received. Anybody can send them:
// they affect nothing but these numbers.
type TestRequests struct {
	Total   uint64       `json:"total"`   // since the start of the service
	Sources []TestSource `json:"sources"` // at most MaxTestSources, by address
	Others  uint64       `json:"others"`  // from further sources
}

// MaxTestSources bounds the sources of test requests that are counted apart.
const MaxTestSources = 16

// TestSource is a host that sent test requests.
type TestSource struct {
	Address netip.Addr `json:"address"`
	Count   uint64     `json:"count"`
	Last    time.Time  `json:"last"` // UTC, in whole seconds
}
