// SPDX-License-Identifier: Apache-2.0

package terminal_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/terminal"
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/tracker"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings/verdict"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// fullReport returns a report with every kind of row.
func fullReport() report.Report {
	b := newTracker()
	result := servingResult()
	result.Config = report.Config{Source: "file", Path: "/etc/c.yaml"}
	result.AcceptedHosts = report.AcceptedHosts{
		Names: []string{"api.example.com"}, Source: report.HostsAPIName, Path: "/etc/kubernetes/apiserver-url.env",
	}
	b.SetReconcileResult(result, start)
	b.SetUpstreams([]report.Upstream{
		{Address: ingress, Checked: start.Add(50 * time.Second), Reachable: true},
		{Address: netip.MustParseAddrPort("[2001:db8::6]:80")},
	}, start)
	client := netip.MustParseAddrPort("203.0.113.9:40000")
	b.RecordChallenge(report.Challenge{
		Time: start.Add(20 * time.Second), Duration: 38 * time.Millisecond, Host: "api.example.com", TokenPrefix: "ABCDEFGH",
		ClientKind: report.CertManager, Client: client, Upstream: ingress, Status: 200,
	})
	b.RecordChallenge(report.Challenge{
		Time: start.Add(30 * time.Second), Duration: 3100 * time.Microsecond, Host: "api.example.com",
		TokenPrefix: "abcdefgh",
		ClientKind:  report.LetsEncrypt, Client: client, Upstream: ingress, Status: 503,
		Detail: "the router has no route for this name: see that the solver's Ingress is admitted",
	})
	b.CountForwarded([]report.ForwardedCount{{ClientKind: report.CertManager, Outcome: report.Answered, Count: 2}})
	rejected := report.RejectionCount{Rejection: report.NotChallenge, ClientKind: report.OtherClient, Count: 1}
	b.CountRejected([]report.RejectionCount{rejected}, start)
	b.SetMetrics(report.Metrics{Address: "0.0.0.0:9645", Served: true})
	r := b.Report(report.Table{
		Present: true, Owned: true, Port: 8888, Elements: []netip.Addr{netip.MustParseAddr("192.0.2.5")},
		Counters: []report.Counter{
			{Chain: "prerouting", Rule: "ip daddr @api4 tcp dport 80 fib daddr type local counter dnat to :8888", Packets: 12},
			{Chain: "input", Packets: 0},
		},
	})
	r.Events = report.Events{VIPTransitions: 3, TableRepairs: 1, Reloads: map[string]uint64{
		report.ReloadRejected: 1,
		report.ReloadAccepted: 2,
	}}
	r.Traffic = report.Traffic{
		Requests: []report.RequestCount{
			{Outcome: report.NoRoute, ClientKind: report.LetsEncrypt, Count: 1},
			{Outcome: report.Answered, ClientKind: report.LetsEncrypt, Count: 5},
			{Outcome: report.Answered, ClientKind: report.CertManager, Count: 12},
			{Outcome: "not-challenge", ClientKind: report.OtherClient, Count: 1},
			{Outcome: report.AnswerUnread, ClientKind: report.Pebble},
			{Outcome: "foreign-host", ClientKind: report.CertManager, Count: 2},
			{Outcome: "foreign-host", ClientKind: report.OtherClient, Count: 3},
		},
		UpstreamErrors: map[string]uint64{"route-missing": 1},
	}
	r.Certificates = []report.Certificate{
		{
			Address: "192.0.2.5:6443", Name: "api.example.com", Issuer: "R11", NotBefore: start.Add(-30 * day),
			NotAfter: start.Add(60 * day), Checked: start,
		},
		{Address: "192.0.2.5:6443", Checked: start, Error: "connection refused"},
	}
	r.SelfTests = []report.SelfTest{
		{VIP: netip.MustParseAddr("192.0.2.5"), OK: true, Since: start, Checked: start.Add(30 * time.Second)},
		{
			VIP: netip.MustParseAddr("2001:db8::5"), Since: start, Checked: start.Add(40 * time.Second),
			Cause: "ingress-refused", Error: "[2001:db8::6]:80 refuses connections",
		},
	}
	return r
}

// TestEveryRow compares a report with every kind of row with the files in testdata.
func TestEveryRow(t *testing.T) {
	t.Parallel()
	text := terminal.Report(fullReport(), start.Add(time.Minute))
	compareGolden(t, "every-row.wide.txt", render(t, text, terminal.View{Wide: true}))
	compareGolden(t, "every-row.80.txt", render(t, text, terminal.View{Width: 80}))
}

func TestWriteTextInvalidConfig(t *testing.T) {
	t.Parallel()
	b := newTracker()
	result := tracker.ReconcileResult{
		Reason:  report.InvalidConfig,
		Message: "a; b; the last accepted configuration stays in use",
	}
	result.Config = report.Config{
		Source: "last-accepted", Path: "/etc/c.yaml",
		Error: "/etc/c.yaml:1:1: a\n/etc/c.yaml:2:1: b",
	}
	b.SetReconcileResult(result, start)
	want := `State:          ✗ InvalidConfig for 0s (HTTP01ChallengeProxyReady=False)
Last challenge: - none since the service started
Configuration:  ✗ the last good one is in use: /etc/c.yaml is rejected
                /etc/c.yaml:1:1: a
                /etc/c.yaml:2:1: b
Metrics:        - not served: metrics.listenAddress is not set
Table:          absent
Events:         VIP transitions: 0, table repairs: 0
Challenges:     0 forwarded
Version:        v1

Problem:        ✗ [config-invalid] a; b; the last accepted configuration stays in use
`
	got, _, _ := strings.Cut(renderText(t, b.Report(report.Table{}), start, terminal.View{Wide: true}), "Fix:")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestFailureRows: requests without a response of the ingress are counted by cause, and the
// row of the last challenge has its result.
func TestFailureRows(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]report.Challenge{
		"- answered 404, 5s ago":                   {Status: 404, Upstream: ingress},
		"✗ answered 500, 5s ago [response-status]": {Status: 500, Upstream: ingress},
		"✓ answered 200, 5s ago":                   {Status: 200, Upstream: ingress},
		"✗ answered 502 for api.example.com, 5s ago [ingress-no-address]": {
			Status: 502, Cause: "ingress-no-address", Host: "api.example.com",
			Detail: "no ingress address is known",
		},
		"- no response, because the client disconnected, 5s ago": {Upstream: ingress},
	} {
		b := newTracker()
		c.Time, c.ClientKind = start, report.CertManager
		b.RecordChallenge(c)
		b.CountForwarded([]report.ForwardedCount{
			{Outcome: report.NotFound, ClientKind: report.CertManager, Count: 2},
			{Outcome: report.NotFound, ClientKind: report.Pebble, Count: 1},
			{Outcome: report.OtherStatus, Count: 7},
			{Outcome: report.Answered, Count: 9},
			{Outcome: report.UpstreamError, Cause: "ingress-refused", Count: 4},
		})
		r, now := b.Report(report.Table{}), start.Add(5*time.Second)
		if got := renderText(t, r, now, terminal.View{}); !strings.Contains(got, "\nLast challenge: "+want+"\n") {
			t.Errorf("no %q in\n%s", want, got)
		}
		if got := renderText(t, r, now, terminal.View{Wide: true}); !strings.Contains(got,
			"\nFailed:         4 ingress-refused\n") {
			t.Errorf("no count in\n%s", got)
		}
	}
}

// TestMetricsRow: the row has the address of the exporter, or why metrics are not served.
func TestMetricsRow(t *testing.T) {
	t.Parallel()
	for want, m := range map[string]report.Metrics{
		"- not served: metrics.listenAddress is not set": {},
		"- exporter starting on 0.0.0.0:9645":            {Address: "0.0.0.0:9645"},
		"✓ served on 0.0.0.0:9645":                       {Address: "0.0.0.0:9645", Served: true},
		"! not served on 0.0.0.0:9645 [metrics-port-in-use]: it is taken by x": {
			Address: "0.0.0.0:9645", Error: "it is taken by x",
		},
	} {
		b := newTracker()
		b.SetMetrics(m)
		if got := renderText(t, b.Report(report.Table{}), start, terminal.View{Wide: true}); !strings.Contains(got,
			"\nMetrics:        "+want+"\n") {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

// copied matches the line of a command, which is never wrapped.
var copied = regexp.MustCompile(`^  (http01-proxyd|oc|crictl|journalctl|systemctl) `)

func TestWriteTextFitsEveryTerminal(t *testing.T) {
	t.Parallel()
	r := fullReport()
	for i := range 30 {
		r.Challenges.Recent = append(r.Challenges.Recent, report.RecentChallenge{
			Host:   fmt.Sprint("h", i),
			Detail: strings.Repeat("long ", 50),
		})
	}
	for width := 1; width < 200; width++ {
		got := renderText(t, r, start, terminal.View{Width: width})
		for line := range strings.Lines(got) {
			command := copied.MatchString(line)
			if n := utf8.RuneCountInString(line) - 1; n > width && !command {
				t.Fatalf("width %d: a line of %d: %s", width, n, line)
			}
		}
	}
}

var sgr = regexp.MustCompile("\x1b\\[(1|2|31|32|33|0)m")

// TestColourAddsNoInformation: the text without colours is the same.
func TestColourAddsNoInformation(t *testing.T) {
	t.Parallel()
	now := start.Add(time.Minute)
	coloured := renderText(t, fullReport(), now, terminal.View{Colour: true, Wide: true})
	for _, want := range []string{"\x1b[32m✓\x1b[0m", "\x1b[31m✗\x1b[0m", "\x1b[31m503\x1b[0m", "\x1b[1mServing, with "} {
		if !strings.Contains(coloured, want) {
			t.Errorf("lacks %q:\n%s", want, coloured)
		}
	}
	if diff := cmp.Diff(renderText(t, fullReport(), now, terminal.View{Wide: true}), sgr.ReplaceAllString(coloured,
		"")); diff != "" {
		t.Errorf("(-plain +coloured without colours):\n%s", diff)
	}
}

func TestCertificateRows(t *testing.T) {
	t.Parallel()
	for want, tt := range map[string]struct{ life, left time.Duration }{
		"✓ x: 25d left of 90d, until 2026-01-27 03:04 UTC\n":                         {90 * day, 25 * day},
		"! x: only 22d left of 90d, until 2026-01-24 03:04 UTC [certificate-expires": {90 * day, 22 * day},
		"✗ x: only 8d left of 90d, until 2026-01-10 03:04 UTC [certificate-expiry":   {90 * day, 8 * day},
		"✗ x: EXPIRED 5m ago, on 2026-01-02 02:59 UTC [certificate-expired]\n":       {6 * day, -5 * time.Minute},
		"✗ x: NOT YET VALID for 3h [certificate-not-yet-valid]\n":                    {6 * day, 6*day + 3*time.Hour},
	} {
		r := report.Report{Certificates: []report.Certificate{{
			Address: "a", Name: "x",
			NotBefore: start.Add(tt.left - tt.life), NotAfter: start.Add(tt.left),
		}}}
		if got := renderText(t, r, start, terminal.View{}); !strings.Contains(got, "\nCertificate:    "+want) {
			t.Errorf("want %s in\n%s", want, got)
		}
	}
}

// TestRenewalRows: failed attempts to renew a certificate, and those that are left.
func TestRenewalRows(t *testing.T) {
	t.Parallel()
	due := report.Certificate{
		Address: "a", Name: "x", NotBefore: start.Add(-110 * time.Hour),
		NotAfter: start.Add(50 * time.Hour),
	}
	failed := due
	failed.FailedRenewals, failed.FirstFailure = 2, start.Add(-2*time.Hour)
	expired := failed
	expired.NotBefore, expired.NotAfter = start.Add(-160*time.Hour), start.Add(-time.Hour)
	const begin = `; presented by a, issued by "", checked 0s ago; `
	for want, c := range map[string]report.Certificate{
		"✓ x: 2d left of 6d, until 2026-01-04 05:04 UTC" + begin + "its renewal is due, with " +
			"cert-manager's defaults, further attempts before the expiry: at most 7\n": due,
		"! x: 2d left of 6d, until 2026-01-04 05:04 UTC [renewal-attempt-failed]" + begin + "failed renewal attempts: 2, " +
			"with cert-manager's defaults, further attempts before the expiry: at most 5\n": failed,
		"✗ x: EXPIRED 60m ago, on 2026-01-02 02:04 UTC [certificate-expired]" + begin + "failed renewal attempts: 2\n": expired,
	} {
		c.Checked = start
		got := renderText(t, report.Report{Certificates: []report.Certificate{c.WithAttemptsLeft(start)}}, start,
			terminal.View{Wide: true})
		if !strings.Contains(got, "\nCertificate:    "+want) {
			t.Errorf("want %s in\n%s", want, got)
		}
	}
}

// hostile is a text of another program with characters that are not printable.
const hostile = "hos\x1b[31mt\x1b]0;title\x07\x9b31m\u009b2J\u0085\n\r\tA\u202eB\u2066C\u200bD\u2028E\u00adF\ufeffG\U000e0041H\xff\x7file"

// fillWithHostileText sets every string of a report to the hostile text.
func fillWithHostileText(t *testing.T, v reflect.Value) {
	t.Helper()
	switch v.Interface().(type) {
	case time.Time:
		return
	case netip.Addr:
		v.Set(reflect.ValueOf(netip.MustParseAddr("fe80::1").WithZone(hostile)))
		return
	case netip.AddrPort:
		v.Set(reflect.ValueOf(netip.AddrPortFrom(netip.MustParseAddr("fe80::1").WithZone(hostile), 80)))
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillWithHostileText(t, v.Elem())
	case reflect.String:
		v.SetString(hostile)
	case reflect.Struct:
		for i := range v.NumField() {
			fillWithHostileText(t, v.Field(i))
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fillWithHostileText(t, v.Index(0))
		fillWithHostileText(t, v.Index(1))
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fillWithHostileText(t, key)
		fillWithHostileText(t, value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Bool, reflect.Int, reflect.Uint16, reflect.Uint64, reflect.Float64:
	default:
		t.Fatalf("a report contains a %v: extend this function", v.Type())
	}
}

// TestWriteTextReplacesControlCharacters: the output contains printable text, line ends and
// the colours only.
func TestWriteTextReplacesControlCharacters(t *testing.T) {
	t.Parallel()
	var worst report.Report
	fillWithHostileText(t, reflect.ValueOf(&worst).Elem())
	reachable, present, typed := worst, worst, worst
	reachable.Upstreams = []report.Upstream{{Address: worst.Upstreams[0].Address, Reachable: true}}
	present.Table.Error = ""
	present.Table.Present, present.Table.Owned = true, true
	present.Certificates = []report.Certificate{worst.Certificates[0]}
	present.Certificates[0].Error = ""
	present.Traffic.Requests[0].Count = 1
	typed.Conditions[0].Type = report.ConditionType
	for name, r := range map[string]report.Report{
		"worst": worst, "reachable": reachable, "present": present,
		"typed": typed, "missing": report.ServiceUnreachable(start, errors.New(hostile)),
	} {
		for _, view := range []terminal.View{
			{}, {Colour: true, Wide: true}, {Colour: true, Width: 80}, {Width: 40, Wide: true},
		} {
			out := renderText(t, r, start, view)
			if !strings.Contains(out, "file") && !strings.Contains(out, "hos") {
				t.Errorf("%s: the output lacks the text:\n%q", name, out)
			}
			if view.Colour {
				out = sgr.ReplaceAllString(out, "")
			}
			for _, c := range out {
				if c != '\n' && !unicode.IsPrint(c) {
					t.Fatalf("%s, %+v: %U is printed in\n%q", name, view, c, out)
				}
			}
		}
	}
	if s := verdict.StatusLine(worst, start); strings.ContainsFunc(s, func(c rune) bool { return !unicode.IsPrint(c) }) {
		t.Errorf("the status line is %q", s)
	}
}

// TestJSONHoldsNoControlCharacters: the escaped JSON has the same content.
func TestJSONHoldsNoControlCharacters(t *testing.T) {
	t.Parallel()
	var worst report.Report
	fillWithHostileText(t, reflect.ValueOf(&worst).Elem())
	plain, err := json.Marshal(worst)
	if err != nil {
		t.Fatal(err)
	}
	for _, indent := range []bool{true, false} {
		var out strings.Builder
		if err := report.WriteJSON(&out, worst, indent); err != nil {
			t.Fatal(err)
		}
		for _, c := range out.String() {
			if c != '\n' && !unicode.IsPrint(c) {
				t.Fatalf("%U is printed in\n%q", c, out.String())
			}
		}
		if n := strings.Count(out.String(), "\n"); (n == 1) == indent {
			t.Errorf("indent %v: %d lines", indent, n)
		}
		var want, got any
		if err := errors.Join(json.Unmarshal(plain, &want), json.Unmarshal([]byte(out.String()), &got)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("(-as it was +as it is printed):\n%s", diff)
		}
	}
}
