// SPDX-License-Identifier: Apache-2.0

package selfcheck

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/response"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/result"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings/verdict"
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

// Responses are the responses of the API VIPs without a fault.
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

	Names     []string          // of the API, for which challenges may arrive
	InFiles   []string          // names of the API in the files of this host, whatever hosts lists
	Accepted  []string          // names of which this host accepts challenges; empty: all
	Holder    bool              // this host holds a VIP
	Serving   bool              // the service on this host reports that it serves
	SelfTests []report.SelfTest // of the service on this host
	VIPTests  []report.VIPTest  // of the same
	// Challenges are the responses to the challenge of --token. Without one, no challenge
	// is requested, because that would be counted as one.
	Challenges map[netip.Addr]protocol.FetchResult
	Token      string
	Log        Log // about that challenge

	// ForeignHost is when the service on this host last rejected a challenge of cert-manager or a CA
	// for another name, if that was within ForeignHostPeriod.
	ForeignHost time.Time
}

// ForeignHostPeriod is how long check reports such a challenge. While one is pending, cert-manager
// repeats its self check every few seconds.
const ForeignHostPeriod = time.Hour

// Check evaluates the responses.
func (s SelfCheck) Check() result.Result {
	var all result.Subjects
	for _, r := range s.Closed {
		s.judgeClosed(r, &all)
	}
	for _, r := range s.Open {
		s.judgeOpen(r, &all)
	}
	all.Find(verdict.SelfTests(s.SelfTests...)...)
	for _, t := range s.VIPTests {
		if t.Cause == string(findings.VIPTwoHosts) {
			all.FindAt(findings.New(findings.VIPTwoHosts, findings.Values{"vip": t.VIP.String()}), t.VIP)
		}
	}
	switch rejected, inFiles := s.rejected(s.Names), s.rejected(s.InFiles); {
	case len(rejected) > 0 && !s.Holder:
		f := s.nameNotAllowed("this host (once it holds a VIP)", rejected)
		f.Level = findings.Warning
		all.Find(f)
	case len(rejected) > 0: // judgeOpen found it
	case len(inFiles) > 0:
		f := s.nameNotAllowed("this host", inFiles)
		f.Message += ", the name of the API in the files of this host"
		f.Level = findings.Warning
		all.Find(f)
	case !s.ForeignHost.IsZero():
		// The name is not reported: a client chose it.
		f := s.nameNotAllowed("this host", []string{"<name of the challenge>"})
		f.Message += ", the name of a challenge that cert-manager or a CA requested at " +
			s.ForeignHost.UTC().Format(time.TimeOnly) + " UTC: oc get challenge -A shows pending ones"
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
		all.FindAt(findings.New(findings.SelfCheckFails, findings.Values{"endpoint": r.String(), "how": how}), r)
	default:
		f := r.attribute(findings.New(findings.ProxyUnreachable, findings.Values{"endpoint": r.String(), "how": how}))
		if s.testFailed(r) {
			f.Message += fmt.Sprintf(". The tests of the service on this host show the same [%s]", findings.VIPUnreachableFromHere)
		}
		all.FindAt(f, r)
	}
}

// testFailed reports whether the service on this host has found that a VIP cannot be reached.
func (s SelfCheck) testFailed(r Response) bool {
	return slices.ContainsFunc(s.VIPTests, func(t report.VIPTest) bool {
		return t.VIP == r.VIP && t.Cause == string(findings.VIPUnreachableFromHere)
	})
}

// judgeOpen evaluates a VIP where http01-proxyd responds. The service tests less often: what it reports
// may be over.
func (s SelfCheck) judgeOpen(r Response, all *result.Subjects) {
	if s.testFailed(r) {
		f := findings.New(findings.VIPUnreachableFromHere, findings.Values{
			"vip": r.VIP.String(), "how": "the last tests of the service failed, but the request of this check was answered",
		})
		f.Level = findings.Warning
		all.FindAt(f, r.VIP)
		return
	}
	rejected := s.rejected(s.Names)
	switch challenge, known := s.Challenges[r.VIP]; {
	case len(rejected) > 0 && r.Held:
		all.FindAt(s.nameNotAllowed(r.String(), rejected), r)
	case known && response.IsFromProxy(challenge):
		all.FindAt(s.nameNotAllowed(r.String(), s.Names[:min(len(s.Names), 1)]), r)
	default:
		all.Pass(r, "http01-proxyd responds to this host in %s", report.Milliseconds(r.Page.Total))
	}
}

// rejected returns the names of a list for which this host does not accept challenges.
func (s SelfCheck) rejected(names []string) []string {
	if len(s.Accepted) == 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(s.Accepted, name) })
}

// nameNotAllowed is the finding about names, with the line of the configuration that accepts
// them besides the others. If this host accepts any name, another one needs that.
func (s SelfCheck) nameNotAllowed(endpoint string, names []string) findings.Finding {
	all := []string{"*"}
	if len(s.Accepted) > 0 {
		all = slices.Clone(s.Accepted)
		for _, name := range names {
			if !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
	}
	return findings.New(findings.NameNotAllowed, findings.Values{
		"endpoint": endpoint, "name": strings.Join(names, " and "),
		"line": `hosts: ["` + strings.Join(all, `", "`) + `"]`,
	})
}
