// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"encoding/json"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/http01-proxyd/http01-proxyd/internal/wire"
	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
	"github.com/http01-proxyd/http01-proxyd/pkg/ingress/trust"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

var longestName = strings.Repeat(strings.Repeat("a", 63)+".", 3) + strings.Repeat("a", 61)

// TestLargestMessages: the largest command and the largest statistics can be sent.
func TestLargestMessages(t *testing.T) {
	t.Parallel()
	parent, files, err := wire.NewPair()
	if err != nil {
		t.Fatal(err)
	}
	defer parent.Close()
	child, err := wire.NewChild(files)
	if err != nil {
		t.Fatal(err)
	}
	defer child.Close()
	hosts := slices.Repeat([]string{strings.Repeat("a", 60)}, 4000)
	command := Command{Configure: &Configure{
		Hosts: hosts, Upstream: ingress.FromConfig(config.Default().Upstream, nil),
		Egress: ingress.Egress{
			ProxyCAs:      ingress.CABundle{Roots: [][]byte{make([]byte, (trust.MaxSystem+trust.MaxBundle)*3/4)}},
			AdditionalCAs: ingress.CABundle{Roots: [][]byte{make([]byte, trust.MaxSystem*3/4)}},
		},
	}}
	if err := parent.Send(command, -1); err != nil {
		t.Error(err)
	}
	s := &Stats{UpstreamFailed: true, AcceptFailures: 1}
	for range MaxChallenges {
		name := longestName
		s.Challenges = append(s.Challenges, Challenge{
			Challenge: report.Challenge{Host: name, Method: "GET", ClientKind: report.CertManager, Outcome: report.Answered},
			Failure: &cause.Failure{Cause: "ingress-tls-name", Details: cause.Details{
				Reason: cause.NameMismatch,
				Names:  []string{name, name, name, name},
			}, Others: slices.Repeat([]cause.OtherFailure{{Cause: "ingress-refused"}},
				cause.MaxOthers)},
		})
	}
	s.Sums = slices.Repeat([]report.ForwardedCount{{
		ClientKind: report.Pebble, Outcome: report.UpstreamError,
		Cause: "ingress-refused", Bucket: report.FirstBucket, Count: 1, TotalDuration: 1,
	}}, MaxRequestSums)
	s.Rejected = slices.Repeat([]report.RejectionCount{{
		Rejection: report.ForeignHost, ClientKind: report.CertManager,
		Count: 1,
	}}, maxRejectionSums)
	sent := make(chan error, 1)
	go func() { sent <- child.Send(Event{Stats: s}) }()
	var e Event
	if err := parent.Receive(&e); err != nil || len(e.Stats.Challenges) != MaxChallenges {
		t.Errorf("received: %v", err)
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
}

// TestInvalidStats: statistics that no proxy of this program reports are rejected.
func TestInvalidStats(t *testing.T) {
	t.Parallel()
	good := Challenge{Challenge: report.Challenge{
		Method: "GET", Host: "api.example.com", TokenPrefix: "evaGxfAD",
		ClientKind: report.CertManager, Outcome: report.Answered, Status: 200,
	}}
	with := func(change func(*Challenge)) Stats {
		c := good
		change(&c)
		return Stats{Challenges: []Challenge{good, c}}
	}
	for name, tt := range map[string]struct {
		stats Stats
		ok    bool
	}{
		"good":                {with(func(*Challenge) {}), true},
		"no host":             {with(func(c *Challenge) { c.Host = "" }), true},
		"a line break":        {with(func(c *Challenge) { c.Host = "a\nb" }), false},
		"an escape":           {with(func(c *Challenge) { c.TokenPrefix = "\x1b[31m" }), false},
		"a long host":         {with(func(c *Challenge) { c.Host = strings.Repeat("a", 254) }), false},
		"a host and a port":   {with(func(c *Challenge) { c.Host = "api.example.com:8080" }), true},
		"the longest host":    {with(func(c *Challenge) { c.Host = longestName + ":65535" }), true},
		"IPv6 and a port":     {with(func(c *Challenge) { c.Host = "[2001:db8::5]:8080" }), true},
		"IPv6":                {with(func(c *Challenge) { c.Host = "[2001:db8::5]" }), true},
		"a host with a zone":  {with(func(c *Challenge) { c.Host = "[fe80::1%x]:80" }), false},
		"a sentence as host":  {with(func(c *Challenge) { c.Host = "run this now" }), false},
		"another method":      {with(func(c *Challenge) { c.Method = "PUT" }), false},
		"a zone":              {with(func(c *Challenge) { c.VIP = netip.MustParseAddr("fe80::1%x\ny") }), false},
		"a client's zone":     {with(func(c *Challenge) { c.Client = netip.MustParseAddrPort("[fe80::1%x]:80") }), false},
		"an ingress's zone":   {with(func(c *Challenge) { c.Upstream = netip.MustParseAddrPort("[fe80::1%x]:80") }), false},
		"a long time":         {with(func(c *Challenge) { c.Duration = MaxRequestDuration + 1 }), false},
		"a failure":           {with(func(c *Challenge) { c.Failure = &cause.Failure{Cause: "ingress-refused"} }), true},
		"an unknown cause":    {with(func(c *Challenge) { c.Failure = &cause.Failure{Cause: "run this now"} }), false},
		"a whole token":       {with(func(c *Challenge) { c.TokenPrefix = "evaGxfADs" }), false},
		"a negative status":   {with(func(c *Challenge) { c.Status = -1 }), false},
		"a negative time":     {with(func(c *Challenge) { c.Duration = -1 }), false},
		"too many challenges": {Stats{Challenges: make([]Challenge, MaxChallenges+1)}, false},
		"an unknown client":   {with(func(c *Challenge) { c.ClientKind = "curl" }), false},
		"an unknown outcome":  {with(func(c *Challenge) { c.Outcome = "fine" }), false},
		"a sum": {
			Stats{Sums: []report.ForwardedCount{{
				ClientKind: report.Pebble,
				Outcome:    report.UpstreamError, Cause: "ingress-refused", Bucket: report.FirstBucket, Count: 1, TotalDuration: 1,
			}}},
			true,
		},
		"too many at once": {Stats{Sums: []report.ForwardedCount{{
			ClientKind: report.Pebble,
			Outcome:    report.UpstreamError, Bucket: report.FirstBucket, Count: maxCount + 1,
		}}}, false},
		"a sum of no client": {Stats{Sums: []report.ForwardedCount{{
			Outcome: report.UpstreamError,
			Bucket:  report.FirstBucket, Count: 1,
		}}}, false},
		"a sum of rejections": {Stats{Sums: []report.ForwardedCount{{
			ClientKind: report.Pebble, Outcome: "not-challenge",
			Bucket: report.FirstBucket, Count: 1,
		}}}, false},
		"an unknown bucket": {Stats{Sums: []report.ForwardedCount{{
			ClientKind: report.Pebble,
			Outcome:    report.UpstreamError, Bucket: 1000,
		}}}, false},
		"a sum of a text": {Stats{Sums: []report.ForwardedCount{{
			ClientKind: report.Pebble,
			Outcome:    report.UpstreamError, Bucket: report.FirstBucket, Count: 1, Cause: "run this now",
		}}}, false},
		"a sum of an hour": {Stats{Sums: []report.ForwardedCount{{
			ClientKind: report.Pebble,
			Outcome:    report.UpstreamError, Bucket: report.LastBucket, Count: 1, TotalDuration: time.Hour,
		}}}, false},
		"the end of a bucket": {Stats{Sums: []report.ForwardedCount{{
			ClientKind: report.Pebble,
			Outcome:    report.UpstreamError, Bucket: 0, Count: 3, TotalDuration: 3 * time.Second,
		}}}, true},
		"too many sums":       {Stats{Sums: make([]report.ForwardedCount, MaxRequestSums+1)}, false},
		"a rejection":         {rejectionStats(report.Evicted, report.OtherClient), true},
		"a rejection of one":  {rejectionStats(report.ForeignHost, report.CertManager), true},
		"an unknown refuser":  {rejectionStats(report.ForeignHost, "curl"), false},
		"a client unread":     {rejectionStats(report.Evicted, report.CertManager), false},
		"a kind of rejection": {rejectionStats("evicted2", report.OtherClient), false},
		"an errno":            {Stats{LastAcceptErrno: maxErrno + 1}, false},
		"an empty rejection": {Stats{Rejected: []report.RejectionCount{{
			Rejection:  report.Evicted,
			ClientKind: report.OtherClient,
		}}}, false},
		"a test request": {Stats{TestRequests: []report.TestSource{{
			Address: netip.MustParseAddr("2001:db8::1"),
			Count:   1,
		}, {Count: maxCount}}}, true},
		"a test's zone": {Stats{TestRequests: []report.TestSource{{
			Address: netip.MustParseAddr("fe80::1%x"),
			Count:   1,
		}}}, false},
		"no test requests":   {Stats{TestRequests: []report.TestSource{{}}}, false},
		"many test requests": {Stats{TestRequests: []report.TestSource{{Count: maxCount + 1}}}, false},
		"too many sources": {
			Stats{TestRequests: slices.Repeat([]report.TestSource{{Count: 1}}, report.MaxTestSources+2)},
			false,
		},
		"a self-test": {Stats{SelfTest: &SelfTested{
			ID: 1, Status: 503,
			Failure: &cause.Failure{Cause: "route-missing"},
		}}, true},
		"a self-test's cause":  {Stats{SelfTest: &SelfTested{Failure: &cause.Failure{Cause: "run this now"}}}, false},
		"a self-test's zone":   {Stats{SelfTest: &SelfTested{Upstream: netip.MustParseAddrPort("[fe80::1%x]:80")}}, false},
		"a self-test's status": {Stats{SelfTest: &SelfTested{Status: 1000}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := tt.stats.Validate(); (err == nil) != tt.ok {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestInvalidVIPResults: results that no proxy of this program reports are rejected.
func TestInvalidVIPResults(t *testing.T) {
	t.Parallel()
	vip := netip.MustParseAddr("192.0.2.5")
	for name, tt := range map[string]struct {
		results []VIPTested
		ok      bool
	}{
		"answered":            {[]VIPTested{{vip, report.VIPAnswered, 1}}, true},
		"an older release":    {[]VIPTested{{vip, report.VIPAnswered, 0}}, true},
		"not sent":            {[]VIPTested{{vip, report.VIPNotSent, 0}}, true},
		"none":                {nil, true},
		"two hosts":           {[]VIPTested{{vip, report.VIPTwoHosts, 0}}, false},
		"a failure's ID":      {[]VIPTested{{vip, report.VIPRefused, 1}}, false},
		"no result":           {[]VIPTested{{vip, "", 0}}, false},
		"a text":              {[]VIPTested{{vip, "run this now", 0}}, false},
		"a zone":              {[]VIPTested{{netip.MustParseAddr("fe80::1%x"), report.VIPRefused, 0}}, false},
		"the most VIPs":       {slices.Repeat([]VIPTested{{vip, report.VIPRefused, 0}}, MaxTestedVIPs), true},
		"more than that many": {slices.Repeat([]VIPTested{{vip, report.VIPRefused, 0}}, MaxTestedVIPs+1), false},
	} {
		e := Event{VIPsTested: &VIPsTested{Results: tt.results}}
		if err := e.Validate(); (err == nil) != tt.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func rejectionStats(rejection report.Rejection, kind report.ClientKind) Stats {
	return Stats{Rejected: []report.RejectionCount{{Rejection: rejection, ClientKind: kind, Count: 1}}}
}

// FuzzEvent decodes what a hostile proxy can send: an accepted event has exactly one
// payload, and what is printed of it is one line of printable characters.
func FuzzEvent(f *testing.F) {
	for _, text := range []string{
		`{"heartbeat":{}}`, `{"stopped":{"port":8888}}`, `{"drained":{"cut":1}}`, `{"flushed":{}}`,
		`{"ingressProbed":{"results":[{"addr":"192.0.2.6:80","failure":{"cause":"ingress-refused"}}]}}`,
		`{"stats":{"acceptFailures":1,"lastAcceptErrno":24}}`,
		`{"stats":{"selfTest":{"id":1,"status":502,"upstream":"192.0.2.6:80","failure":{"cause":"ingress-refused"}}}}`,
		`{"vipsTested":{"results":[{"vip":"192.0.2.5","result":"answered","instance":18446744073709551615}]}}`,
		`{"stats":{"testRequests":[{"address":"192.0.2.11","count":1},{"address":"","count":2}]}}`,
		`{}`, `{"heartbeat":{},"flushed":{}}`, `{"heartbeat":null}`, `{"flushed":{}}{"flushed":{}}`, `{"drained":{"cut":-1}}`,
		string(must(json.Marshal(Event{Stats: &Stats{Challenges: []Challenge{{
			Challenge: report.Challenge{
				Method: "GET", Host: "api.example.com", TokenPrefix: "evaGxfAD",
				ClientKind: report.CertManager, Outcome: report.Answered, Status: 200,
			},
			Failure: &cause.Failure{Cause: "ingress-refused"},
		}}}}))),
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var e Event
		if wire.DecodeEvent(text, &e) != nil {
			return
		}
		texts, count := textsOf(&e)
		if count != 1 {
			t.Errorf("%s is accepted with %d payloads", text, count)
		}
		for _, s := range texts {
			if len(s) > 8<<10 || strings.ContainsFunc(s, func(c rune) bool { return !unicode.IsPrint(c) }) {
				t.Errorf("%s has the text %q", text, s)
			}
		}
	})
}

func must(text []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return text
}

// textsOf returns what may be printed of an event, and the number of its payloads.
func textsOf(e *Event) (texts []string, payloads int) {
	for _, set := range []bool{
		e.Heartbeat != nil, e.Stopped != nil, e.Drained != nil, e.IngressProbed != nil,
		e.Stats != nil, e.Flushed != nil, e.VIPsTested != nil,
	} {
		if set {
			payloads++
		}
	}
	if e.VIPsTested != nil {
		for _, r := range e.VIPsTested.Results {
			texts = append(texts, r.VIP.String(), string(r.Result))
		}
	}
	if e.IngressProbed != nil {
		for _, r := range e.IngressProbed.Results {
			texts = append(texts, r.Addr.String())
			if r.Failure != nil {
				texts = append(texts, r.Failure.Summary(cause.Context{}))
			}
		}
	}
	if e.Stats != nil {
		for _, c := range e.Stats.Challenges {
			texts = append(texts, c.Host, c.TokenPrefix, c.Method, string(c.ClientKind), string(c.Outcome), c.VIP.String(),
				c.Client.String(), c.Upstream.String(), c.Duration.String())
			if c.Failure != nil {
				texts = append(texts, c.Failure.Summary(cause.Context{}))
			}
		}
		if tested := e.Stats.SelfTest; tested != nil {
			texts = append(texts, tested.Upstream.String())
			if tested.Failure != nil {
				texts = append(texts, tested.Failure.Summary(cause.Context{}))
			}
		}
		for _, r := range e.Stats.TestRequests {
			texts = append(texts, r.Address.String())
		}
		for _, s := range e.Stats.Sums {
			texts = append(texts, string(s.ClientKind), string(s.Outcome), s.Cause)
		}
	}
	return texts, payloads
}
