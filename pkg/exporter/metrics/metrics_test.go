// SPDX-License-Identifier: Apache-2.0

package metrics_test

import (
	"flag"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"os"
	"os/exec"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/template"
	"time"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/http01-proxyd/http01-proxyd/pkg/controller/tracker"
	"github.com/http01-proxyd/http01-proxyd/pkg/exporter/metrics"
	"github.com/http01-proxyd/http01-proxyd/pkg/exporter/protocol"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

var update = flag.Bool("update", false, "write testdata and the document")

var (
	from  = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	until = from.Add(90 * 24 * time.Hour)
)

// sample returns a report with a value of each kind, no two of them equal.
func sample() report.Report {
	attempts := 26
	durations := report.Histogram{}
	durations.Add(report.BucketOf(3*time.Millisecond), 5, 15*time.Millisecond)
	durations.Add(report.BucketOf(time.Second), 2, 2*time.Second)
	durations.Add(report.BucketOf(time.Hour), 1, time.Hour)
	return report.Report{
		Version:    "v1.2.3 go1.26.0",
		Build:      report.Build{Version: "v1.2.3", Revision: "9daee33a", GoVersion: "go1.26.0"},
		Conditions: []report.Condition{{Type: report.ConditionType, Status: "False", Reason: report.UpstreamUnreachable}},
		VIPs: []report.VIP{
			{Address: netip.MustParseAddr("192.0.2.5"), Family: "IPv4", State: report.VIPHeld},
			{Address: netip.MustParseAddr("2001:db8::5"), Family: "IPv6", State: report.VIPStandby},
		},
		Table: report.Table{Present: true, Counters: []report.Counter{
			{Chain: "prerouting", Rule: "ip daddr @api4 tcp dport 80 fib daddr type local counter dnat to :8888", Packets: 10},
			{Chain: "prerouting", Rule: "ip6 daddr @api6 tcp dport 80 fib daddr type local counter dnat to :8888", Packets: 20},
			{Chain: "output", Rule: "ip daddr @api4 tcp dport 80 fib daddr type local counter dnat to :8888", Packets: 3},
			{Chain: "output", Rule: "ip6 daddr @api6 tcp dport 80 fib daddr type local counter dnat to :8888", Packets: 4},
			{Chain: "reject-output", Rule: "tcp dport 8888 fib daddr type local counter reject with tcp reset", Packets: 99},
		}},
		Traffic: report.Traffic{
			Requests: []report.RequestCount{
				{Outcome: report.Answered, ClientKind: report.CertManager, Count: 6},
				{Outcome: report.Answered, ClientKind: report.LetsEncrypt, Count: 1},
				{Outcome: report.UpstreamError, ClientKind: report.OtherClient, Count: 1},
				{Outcome: report.Outcome(report.NotChallenge), ClientKind: report.OtherClient, Count: 31},
			},
			Durations:      durations,
			UpstreamErrors: map[string]uint64{"ingress-refused": 1},
		},
		Events: report.Events{
			VIPTransitions: 7, TableRepairs: 8, Reloads: map[string]uint64{report.ReloadAccepted: 9},
			VIPTests: map[report.VIPTestResult]uint64{report.VIPAnswered: 10, report.VIPTimedOut: 2},
		},
		Certificates: []report.Certificate{
			{Address: "192.0.2.5:6443", Name: "", Issuer: "kube-apiserver-lb-signer", NotBefore: from, NotAfter: until},
			{
				Address: "192.0.2.5:6443", Name: "api.example.com", Issuer: "R11", NotBefore: from, NotAfter: until,
				MaxAttemptsLeft: &attempts,
			},
			{
				Address: "[2001:db8::5]:6443", Name: "api.example.com", Issuer: "R11", NotBefore: from.Add(-time.Hour),
				NotAfter: until.Add(-time.Hour), MaxAttemptsLeft: &attempts,
			},
			{Address: "192.0.2.5:6443", Name: "never.example.com", Error: "connection refused"},
		},
		SelfTests: []report.SelfTest{
			{VIP: netip.MustParseAddr("192.0.2.5"), Checked: from, Cause: "ingress-refused", Error: "no"},
			{VIP: netip.MustParseAddr("2001:db8::5"), Checked: from.Add(time.Minute), OK: true},
		},
		VIPTests: []report.VIPTest{
			{VIP: netip.MustParseAddr("192.0.2.5"), Result: report.VIPAnswered},
			{VIP: netip.MustParseAddr("192.0.2.7"), Result: report.VIPTimedOut, Failures: 3, Cause: "vip-unreachable-from-here"},
			{VIP: netip.MustParseAddr("192.0.2.9"), Result: report.VIPNotSent, Failures: 3, Cause: "vip-test-not-sent"},
			// was timed-out
			{VIP: netip.MustParseAddr("192.0.2.10"), Result: report.VIPNotSent, Failures: 4, Cause: "vip-unreachable-from-here"},
			{VIP: netip.MustParseAddr("192.0.2.11"), Result: report.VIPNotSent, Failures: 1},
			// never reached
			{VIP: netip.MustParseAddr("192.0.2.12"), Result: report.VIPTimedOut, Failures: 2},
			// reached before
			{VIP: netip.MustParseAddr("192.0.2.13"), Result: report.VIPTimedOut, Failures: 2, Instance: "0123456789abcdef"},
		},
		TestRequests: report.TestRequests{Total: 12, Sources: []report.TestSource{{
			Address: netip.MustParseAddr("192.0.2.11"),
			Count:   9,
		}}, Others: 3},
		EgressProxy: report.EgressProxy{
			Upstream: "auto", Pending: true, Routes: []report.EgressRoute{{Ingress: "198.51.100.6:80"}},
			Endpoints: []report.EgressEndpoint{{URL: "https://a.example/x", OK: true}, {URL: "https://b.example/", Error: "no"}},
		},
		Trust: report.Trust{Kind: report.TrustLastGood, Certificates: 2, Since: from, Error: "it is empty", IgnoredTotal: 4},
	}
}

// TestText compares the whole text that a scraper reads.
func TestText(t *testing.T) {
	t.Parallel()
	checkFile(t, "testdata/report.prom", metrics.Text(sample()))
}

// TestReducedReport: the part of the report that the exporter gets has all that becomes metrics.
func TestReducedReport(t *testing.T) {
	t.Parallel()
	if diff := cmp.Diff(metrics.Text(sample()), metrics.Text(*protocol.NewReport(sample()))); diff != "" {
		t.Errorf("of the whole report, and of the reduced one (-want +got):\n%s", diff)
	}
}

// checkFile compares a generated file, or writes it.
func checkFile(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("go test ./pkg/exporter/metrics -update writes what is new (-want +got):\n%s", diff)
	}
}

// TestDocumentIsCurrent: docs/reference/metrics.md matches the metrics. `make docs` writes
// it.
func TestDocumentIsCurrent(t *testing.T) {
	t.Parallel()
	type row struct{ Name, Labels, Help, List string }
	data := map[string][]row{}
	values := map[string]map[string]bool{}
	for name, f := range gather(t, sample()) {
		var labels []string
		for _, m := range f.GetMetric() {
			labels = labels[:0]
			for _, l := range m.GetLabel() {
				labels = append(labels, "`"+l.GetName()+"`")
				if values[l.GetName()] == nil {
					values[l.GetName()] = map[string]bool{}
				}
				values[l.GetName()]["`"+l.GetValue()+"`"] = true
			}
		}
		data["Metrics"] = append(data["Metrics"], row{
			Name: name, Labels: strings.Join(labels, ", "),
			Help: strings.TrimSuffix(f.GetHelp(), "."),
		})
	}
	slices.SortFunc(data["Metrics"], func(a, b row) int { return strings.Compare(a.Name, b.Name) })
	data["Values"] = []row{
		{Name: "reason", List: "the [states](status.md#states)"},
		{Name: "cause", List: "the causes in [troubleshooting](../troubleshooting.md)"},
		{Name: "outcome", List: "in the next list"},
	}
	for _, name := range []string{"client", "family", "result"} {
		data["Values"] = append(data["Values"], row{Name: name, List: strings.Join(slices.Sorted(maps.Keys(values[name])),
			", ")})
	}
	var page strings.Builder
	if err := template.Must(template.ParseFiles("testdata/metrics.md.tmpl")).Execute(&page, data); err != nil {
		t.Fatal(err)
	}
	for value := range values["outcome"] {
		if !strings.Contains(page.String(), "\n- "+value+": ") {
			t.Errorf("the outcome %s has no row in testdata/metrics.md.tmpl", value)
		}
	}
	checkFile(t, "../../../docs/reference/metrics.md", page.String())
}

// TestPromtool: Prometheus's own checker reports nothing, for the first report of a
// service either.
func TestPromtool(t *testing.T) {
	t.Parallel()
	board := tracker.New("test", from, func(_, _ report.Condition) {})
	for name, r := range map[string]report.Report{"full": sample(), "first": board.Report(report.Table{}), "zero": {}} {
		cmd := exec.Command("promtool", "check", "metrics")
		cmd.Stdin = strings.NewReader(metrics.Text(r))
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%s: %v (test/install-packages all installs promtool)\n%s", name, err, out)
		}
	}
}

// TestPrometheusWritesTheSame: Prometheus's own code, which reads the text, writes the same bytes.
func TestPrometheusWritesTheSame(t *testing.T) {
	t.Parallel()
	special := sample()
	special.Certificates[0].Name = "a\xff\"\n\\"
	special.Traffic.Durations.Sum = math.Inf(1)
	special.Traffic.Requests[0].Count = 123456789
	special.Table.Counters[0].Packets = math.MaxUint64
	for name, r := range map[string]report.Report{"full": sample(), "zero": {}, "special": special} {
		found := gather(t, r)
		var want strings.Builder
		for _, family := range slices.Sorted(maps.Keys(found)) {
			if _, err := expfmt.MetricFamilyToText(&want, found[family]); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(want.String(), metrics.Text(r)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if want := string(expfmt.FmtText); metrics.ContentType != want {
		t.Errorf("the media type is %q, want %q", metrics.ContentType, want)
	}
}

// TestOrder: the labels of a series, and the series of a metric, are in order and occur once.
func TestOrder(t *testing.T) {
	t.Parallel()
	for name, f := range gather(t, sample()) {
		var all [][]string
		for _, m := range f.GetMetric() {
			var names, values []string
			for _, l := range m.GetLabel() {
				names, values = append(names, l.GetName()), append(values, l.GetValue())
			}
			all = append(all, values)
			if !slices.IsSorted(names) || len(slices.Compact(names)) != len(values) {
				t.Errorf("the labels of %s: %q", name, names)
			}
		}
		for i := range all[1:] {
			if slices.Compare(all[i], all[i+1]) >= 0 {
				t.Errorf("%s has %q before %q", name, all[i], all[i+1])
			}
		}
	}
}

// gather reads the text as Prometheus does.
func gather(t *testing.T, r report.Report) map[string]*dto.MetricFamily {
	t.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	found, err := parser.TextToMetricFamilies(strings.NewReader(metrics.Text(r)))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// series returns the lines that begin with a metric's name, without the name.
func series(t *testing.T, r report.Report, name string) []string {
	t.Helper()
	var lines []string
	for line := range strings.Lines(metrics.Text(r)) {
		if rest, is := strings.CutPrefix(line, name); is {
			lines = append(lines, strings.TrimSpace(rest))
		}
	}
	return lines
}

func TestSeries(t *testing.T) {
	t.Parallel()
	with := func(change func(*report.Report)) report.Report {
		r := sample()
		change(&r)
		return r
	}
	for name, tt := range map[string]struct {
		report report.Report
		metric string
		want   []string
	}{
		"ready": {
			with(func(r *report.Report) { r.Conditions[0].Reason = report.Standby }), "http01_proxy_ready",
			[]string{`{reason="Standby"} 1`},
		},
		"a shared address is not held": {
			with(func(r *report.Report) { r.VIPs[0].State = report.VIPNotRequired }), "http01_proxy_vip_held",
			[]string{`{management="",vip="192.0.2.5"} 0`, `{management="",vip="2001:db8::5"} 0`},
		},
		"a VIP that is listed twice": {
			with(func(r *report.Report) { r.VIPs[1] = r.VIPs[0] }), "http01_proxy_vip_held",
			[]string{`{management="",vip="192.0.2.5"} 1`},
		},
		"announced by BGP": {
			with(func(r *report.Report) { r.VIPs[0].Management = report.ManagementBGP }), "http01_proxy_vip_held",
			[]string{`{management="",vip="2001:db8::5"} 0`, `{management="BGP",vip="192.0.2.5"} 1`},
		},
		"no table": {
			with(func(r *report.Report) { r.Table = report.Table{} }), "http01_proxy_redirected_connections_total",
			[]string{`{family="ipv4"} 0`, `{family="ipv6"} 0`},
		},
		"a table that cannot be read": {
			with(func(r *report.Report) { r.Table.Error = "no" }), "http01_proxy_redirected_connections_total", nil,
		},
		"failed renewals": {
			with(func(r *report.Report) { r.Certificates[2].FailedRenewals = 2 }),
			"http01_proxy_api_certificate_failed_renewals",
			[]string{`{name="api.example.com"} 2`},
		},
		"attempts left": {
			with(func(r *report.Report) {
				none := 0
				r.Certificates[2].MaxAttemptsLeft = &none
			}), "http01_proxy_api_certificate_renewal_attempts_left",
			[]string{`{name="api.example.com"} 0`},
		},
		"a renewal that is not due": {
			with(func(r *report.Report) { r.Certificates[2].MaxAttemptsLeft = nil }),
			"http01_proxy_api_certificate_renewal_attempts_left", nil,
		},
		"two issuers": {
			with(func(r *report.Report) { r.Certificates[2].Issuer = "E5" }),
			"http01_proxy_api_certificate_not_after_timestamp_seconds",
			[]string{`{name=""} 1.7800992e+09`, `{name="api.example.com"} 1.7800956e+09`},
		},
		"unreachable, and known from before": {
			with(func(r *report.Report) { r.Certificates = r.Certificates[:1]; r.Certificates[0].Error = "timeout" }),
			"http01_proxy_api_certificate_not_after_timestamp_seconds",
			[]string{`{name=""} 1.7800992e+09`},
		},
		"a name that is no text": {
			with(func(r *report.Report) { r.Certificates = r.Certificates[:1]; r.Certificates[0].Name = "a\xff\"\n" }),
			"http01_proxy_api_certificate_not_after_timestamp_seconds",
			[]string{`{name="a` + "\uFFFD" + `\"\n"} 1.7800992e+09`},
		},
		"causes that this build does not know": {
			with(func(r *report.Report) { r.Traffic.UpstreamErrors = map[string]uint64{"new": 2, "newer": 3} }),
			`http01_proxy_upstream_errors_total{cause="other"}`,
			[]string{"5"},
		},
		"requests in several counts": {
			with(func(r *report.Report) { r.Traffic.Requests = append(r.Traffic.Requests, r.Traffic.Requests[0]) }),
			`http01_proxy_requests_total{client="cert-manager",outcome="ok"}`,
			[]string{"12"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, series(t, tt.report, tt.metric)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestHostileValues: whatever the texts of a report are, its metrics are the same series. Only VIPs, the
// names that are requested from the API server, and the build, which root has configured, name series.
func TestHostileValues(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for round := range 20 {
		r := sample()
		before := r
		replaceTexts(reflect.ValueOf(&r).Elem(), fmt.Sprint("hostile-", round, "-\xff\n\"}"))
		r.Build = before.Build
		r.Conditions[0].Type = report.ConditionType
		for i := range r.Certificates {
			r.Certificates[i].Name = before.Certificates[i].Name
		}
		for i := range r.TestRequests.Sources {
			r.TestRequests.Sources[i].Address = netip.AddrFrom4([4]byte{198, 51, 100, byte(round)})
		}
		for line := range strings.Lines(metrics.Text(r)) {
			name, _, _ := strings.Cut(line, "} ")
			if strings.Contains(line, "hostile") || round > 0 && !strings.HasPrefix(line, "#") && strings.Contains(line, "{") &&
				!known[name] {
				t.Errorf("round %d has a new series: %s", round, line)
			}
			known[name] = true
		}
	}
	if len(known) < 100 {
		t.Errorf("%d series", len(known))
	}
}

// replaceTexts replaces each text and each key of a map in v. Elements of slices are copied first.
func replaceTexts(v reflect.Value, text string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				replaceTexts(v.Field(i), text)
			}
		}
	case reflect.Slice:
		v.Set(reflect.AppendSlice(reflect.MakeSlice(v.Type(), 0, v.Len()), v))
		for i := range v.Len() {
			replaceTexts(v.Index(i), text)
		}
	case reflect.Map:
		changed := reflect.MakeMap(v.Type())
		for _, key := range v.MapKeys() {
			if key.Kind() == reflect.String {
				changed.SetMapIndex(reflect.ValueOf(text).Convert(key.Type()), v.MapIndex(key))
			}
		}
		if changed.Len() > 0 {
			v.Set(changed)
		}
	default:
	}
}

// TestHelpStandsAlone: no help text refers to the text of another metric, and each names its unit.
func TestHelpStandsAlone(t *testing.T) {
	t.Parallel()
	for name, f := range gather(t, sample()) {
		help := f.GetHelp()
		if regexp.MustCompile(`that certificate|these CAs`).MatchString(help) || !strings.HasSuffix(help, ".") {
			t.Errorf("%s: %s", name, help)
		}
		if strings.Contains(name, "seconds") != strings.Contains(help, "in seconds") {
			t.Errorf("%s: the help text names no unit: %s", name, help)
		}
		if strings.HasSuffix(name, "_timestamp_seconds") != strings.Contains(help, "since 1970") {
			t.Errorf("a time has the suffix _timestamp_seconds: %s: %s", name, help)
		}
	}
}

// TestHistogram: the buckets add up to the count, before the first request too.
func TestHistogram(t *testing.T) {
	t.Parallel()
	h := gather(t, sample())["http01_proxy_request_duration_seconds"].GetMetric()[0].GetHistogram()
	if h.GetSampleCount() != 8 || h.GetSampleSum() != 3602.015 {
		t.Errorf("count %d, sum %v", h.GetSampleCount(), h.GetSampleSum())
	}
	buckets := make(map[float64]uint64)
	for _, b := range h.GetBucket() {
		buckets[b.GetUpperBound()] = b.GetCumulativeCount()
	}
	for bound, want := range map[float64]uint64{0x1p-10: 0, 0x1p-9: 0, 0x1p-8: 5, 0.5: 5, 1: 7, 32: 7, 64: 8} {
		if buckets[bound] != want {
			t.Errorf("up to %v s: %d, want %d", bound, buckets[bound], want)
		}
	}
	empty := gather(t, report.Report{})["http01_proxy_request_duration_seconds"].GetMetric()[0].GetHistogram()
	if empty.GetSampleCount() != 0 || len(empty.GetBucket()) != len(h.GetBucket()) {
		t.Errorf("before the first request: %v", empty)
	}
}
