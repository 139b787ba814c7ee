// SPDX-License-Identifier: Apache-2.0

package selfcheck

import (
	"net/netip"
	"slices"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/response"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/result"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// HTTPPort is the port of a VIP to which validators connect.
const HTTPPort = 80

// Response is the response at port 80 of an API VIP.
type Response struct {
	VIP  netip.Addr
	Held bool // this host holds the VIP
	Page protocol.FetchResult
}

func (r Response) String() string { return netip.AddrPortFrom(r.VIP, HTTPPort).String() }

// attribute marks a finding about a VIP of another host.
func (r Response) attribute(f findings.Finding) findings.Finding {
	if r.Held {
		return f
	}
	return f.OnOtherHost()
}

// Responses are the responses of the API VIPs, except those of faulty VIPs.
type Responses struct {
	Open   []Response // of http01-proxyd
	Closed []Response // of another program, or none
}

// Add adds a response.
func (s *Responses) Add(r Response) {
	if response.IsFromProxy(r.Page) {
		s.Open = append(s.Open, r)
	} else {
		s.Closed = append(s.Closed, r)
	}
}

// SelfCheck is what was observed at the API VIPs: through the output chains if this host
// holds the VIP, otherwise over the network.
type SelfCheck struct {
	Responses

	Name      string            // of the API
	GivenName string            // by --name; empty without it
	Hosts     []string          // that the configuration allows; empty: all
	Holder    bool              // this host holds a VIP
	Serving   bool              // the service on this host reports that it serves
	SelfTests []report.SelfTest // of the service on this host
	VIPTests  []report.VIPTest  // of the same
	// Challenges are the responses to the challenge of --token. Without one, no challenge
	// is requested, because that would be counted as one.
	Challenges map[netip.Addr]protocol.FetchResult
	Token      string
	Log        Log // about that challenge
}

// Check evaluates the responses.
func (s SelfCheck) Check() result.Result {
	var all result.Subjects
	for _, r := range s.Closed {
		s.judgeClosed(r, &all)
	}
	for _, r := range s.Open {
		s.judgeOpen(r, &all)
	}
	for _, t := range s.SelfTests {
		if !t.OK {
			all.Find(selfTestFailed(t))
		}
	}
	for _, t := range s.VIPTests {
		if t.Cause == string(findings.VIPTwoHosts) {
			all.Find(findings.New(findings.VIPTwoHosts, findings.Values{"vip": t.VIP.String()}))
		}
	}
	if s.rejectsName() && !s.Holder {
		f := nameNotAllowed("this host (once it holds a VIP)", s.GivenName)
		f.Level = findings.Warning
		all.Find(f)
	}
	if s.Log.Missing() {
		var vips []netip.Addr
		for _, r := range s.Open {
			vips = append(vips, r.VIP)
		}
		all.Find(findings.New(findings.SelfCheckMissing, findings.Values{
			"token": s.Token[:min(len(s.Token)/2, shownToken)], "vip": result.JoinAddresses(vips),
			"time": s.Log.Watched.Round(time.Second).String(),
		}))
	}
	r := all.Result("no API VIP could be checked")
	if s.Log.Unknown != "" {
		return r.WithNotChecked("whether cert-manager requests the challenge: " + s.Log.Unknown)
	}
	return r
}

// shownToken is the length of the part of a token that a report contains, as in the
// journal.
const shownToken = 8

// judgeClosed evaluates a VIP where http01-proxyd does not respond.
func (s SelfCheck) judgeClosed(r Response, all *result.Subjects) {
	how := response.Describe(r.Page)
	switch {
	case r.Held && s.Serving:
		all.Find(findings.New(findings.SelfCheckFails, findings.Values{"endpoint": r.String(), "how": how}))
	default:
		all.Find(r.attribute(findings.New(findings.ProxyUnreachable, findings.Values{"endpoint": r.String(), "how": how})))
	}
}

// selfTestFailed is the finding of a self-test. The fault itself explains it, if check
// finds it too.
func selfTestFailed(t report.SelfTest) findings.Finding {
	f := findings.New(findings.SelfTestFailed, findings.Values{
		"endpoint": netip.AddrPortFrom(t.VIP, HTTPPort).String(), "time": t.Checked.Format(time.TimeOnly), "cause": t.Cause,
		"error": t.Error,
	})
	e, _ := findings.Lookup(findings.ID(t.Cause))
	f.CausedBy = append([]findings.ID{e.ID}, e.CausedBy...)
	return f
}

// judgeOpen evaluates a VIP where http01-proxyd responds.
func (s SelfCheck) judgeOpen(r Response, all *result.Subjects) {
	switch challenge, known := s.Challenges[r.VIP]; {
	case s.rejectsName() && r.Held:
		all.Find(nameNotAllowed(r.String(), s.GivenName))
	case known && response.IsFromProxy(challenge):
		all.Find(nameNotAllowed(r.String(), s.Name))
	default:
		all.Pass(r, "http01-proxyd responds in %s", report.Milliseconds(r.Page.Total))
	}
}

// rejectsName reports whether this host's configuration excludes the name of --name.
func (s SelfCheck) rejectsName() bool {
	return s.GivenName != "" && len(s.Hosts) > 0 && !slices.Contains(s.Hosts, s.GivenName)
}

func nameNotAllowed(endpoint, name string) findings.Finding {
	return findings.New(findings.NameNotAllowed, findings.Values{"endpoint": endpoint, "name": name})
}
