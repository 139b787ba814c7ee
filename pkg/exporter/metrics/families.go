// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// families returns all metrics but the histogram.
func families(r report.Report) []*family {
	up := gauge(prefix+"up", "1 while the service runs.")
	up.set(1)
	build := gauge(prefix+"build_info", "1; the labels describe the build of the running service.", "version", "revision", "goversion")
	build.set(1, r.Build.Version, r.Build.Revision, r.Build.GoVersion)
	all := []*family{up, build, readyFamily(r), heldFamily(r.VIPs), redirectFamily(r.Table), requestFamily(r), upstreamErrorFamily(r)}
	all = append(all, eventFamilies(r.Events)...)
	all = append(all, certificateFamilies(r.Certificates)...)
	all = append(all, selfTestFamilies(r.SelfTests)...)
	all = append(all, vipTestFamilies(r)...)
	all = append(all, trustFamilies(r.Trust)...)
	return append(all, egressFamilies(r.EgressProxy)...)
}

func readyFamily(r report.Report) *family {
	f := gauge(prefix+"ready", "1 while the condition HTTP01ChallengeProxyReady is True, 0 otherwise; the label is its reason.", "reason")
	f.set(boolean(r.Condition().Reason.Ready()), string(r.Condition().Reason))
	return f
}

func heldFamily(vips []report.VIP) *family {
	f := gauge(prefix+"vip_held", "1 while this host holds the API VIP, 0 otherwise; the label management is BGP if several hosts hold it at once, and empty otherwise.", "vip", "management")
	for _, v := range vips {
		f.set(boolean(v.State == report.VIPHeld), v.Address.String(), v.Management)
	}
	return f
}

// redirectFamily sums the counters of the rules that redirect connections of other hosts
// and pods. Connections of the host itself, among them the service's own requests, pass
// the output chain and are not counted. A rule of a nat chain counts the first packet of
// each connection. A table that cannot be read has no series. The kernel's counters begin
// at 0 with every new table.
func redirectFamily(t report.Table) *family {
	f := counter(prefix+"redirect_packets_total",
		"Packets to port 80 of the API VIPs that the nftables table redirected: the first packet of each connection of another host or a pod.", "family")
	if t.Error != "" {
		return f
	}
	f.set(0, "ipv4")
	f.set(0, "ipv6")
	for _, c := range t.Counters {
		if c.Chain != "prerouting" || !strings.Contains(c.Rule, " dnat to ") {
			continue
		}
		switch header, _, _ := strings.Cut(c.Rule, " "); header {
		case "ip":
			f.add(float64(c.Packets), "ipv4")
		case "ip6":
			f.add(float64(c.Packets), "ipv6")
		}
	}
	return f
}

func requestFamily(r report.Report) *family {
	f := counter(prefix+"requests_total",
		"Requests, rejected ones included, by outcome and client kind.", "outcome", "client")
	for _, outcome := range outcomeLabels() {
		for _, client := range clientLabels() {
			f.set(0, outcome, client)
		}
	}
	for _, rejection := range rejectionLabels() {
		f.set(0, rejection, string(report.OtherClient))
		if !report.Rejection(rejection).HeadParsed() {
			continue // a head that cannot be parsed has no client kind
		}
		for _, client := range clientLabels() {
			f.set(0, rejection, client)
		}
	}
	for _, c := range r.Traffic.Requests {
		f.add(float64(c.Count), string(c.Outcome), string(c.ClientKind))
	}
	return f
}

func upstreamErrorFamily(r report.Report) *family {
	f := counter(prefix+"upstream_errors_total", "Requests without a usable answer of the ingress, by cause.", "cause")
	for _, cause := range causeLabels() {
		f.set(0, cause)
	}
	for cause, n := range r.Traffic.UpstreamErrors {
		f.add(float64(n), cause)
	}
	return f
}

func eventFamilies(e report.Events) []*family {
	transitions := counter(prefix+"vip_transitions_total", "Times that an API VIP came to this host or left it.")
	transitions.set(float64(e.VIPTransitions))
	repairs := counter(prefix+"table_repairs_total", "Times that the nftables table was missing or changed, and was rebuilt.")
	repairs.set(float64(e.TableRepairs))
	reloads := counter(prefix+"reloads_total", "Reloads of the configuration by result.", "result")
	for _, result := range []string{report.ReloadAccepted, report.ReloadRejected, report.ReloadUnchanged} {
		reloads.set(0, result)
	}
	for result, n := range e.Reloads {
		reloads.set(float64(n), result)
	}
	return []*family{transitions, repairs, reloads}
}

// certificateFamilies selects, by name and issuer, the certificate that expires first:
// when addresses present different certificates, the worst one counts.
func certificateFamilies(found []report.Certificate) []*family {
	type identity struct{ name, issuer string }
	first := make(map[identity]report.Certificate)
	for _, c := range found {
		if c.NotAfter.IsZero() {
			continue // no certificate was received
		}
		id := identity{c.Name, c.Issuer}
		if other, is := first[id]; !is || c.NotAfter.Before(other.NotAfter) {
			first[id] = c
		}
	}
	after := gauge(prefix+"api_certificate_not_after_seconds",
		"Expiry of the API server's certificate on the API VIPs, in seconds since 1970; the label name is empty for a request without SNI.", "name", "issuer")
	before := gauge(prefix+"api_certificate_not_before_seconds",
		"Start of the validity of that certificate, in seconds since 1970.", "name", "issuer")
	failed := gauge(prefix+"api_certificate_failed_renewals",
		"Attempts to renew that certificate that failed, as far as this host has observed their challenges since the service started.", "name", "issuer")
	attempts := gauge(prefix+"api_certificate_renewal_attempts_left",
		"Estimate with cert-manager's defaults of the attempts that it starts at most before that certificate expires; absent before its renewal is due.", "name", "issuer")
	for _, id := range slices.SortedFunc(maps.Keys(first), func(a, b identity) int { return strings.Compare(a.name+"\x00"+a.issuer, b.name+"\x00"+b.issuer) }) {
		after.set(unixSeconds(first[id].NotAfter), id.name, id.issuer)
		before.set(unixSeconds(first[id].NotBefore), id.name, id.issuer)
		if id.name == "" {
			continue // cert-manager does not renew it
		}
		failed.set(float64(first[id].FailedRenewals), id.name, id.issuer)
		if left := first[id].MaxAttemptsLeft; left != nil {
			attempts.set(float64(*left), id.name, id.issuer)
		}
	}
	return []*family{after, before, failed, attempts}
}

// selfTestFamilies describes the self-tests. There are no series while they are off, on
// standby, and before the first one is complete.
func selfTestFamilies(all []report.SelfTest) []*family {
	failed := gauge(prefix+"self_test_failed",
		"1 while the self-test of the API VIP fails, 0 otherwise; the label cause is the ID of the finding, or empty.", "vip", "cause")
	completed := gauge(prefix+"self_test_timestamp_seconds", "Time of the last self-test of the API VIP, in seconds since 1970.", "vip")
	for _, t := range all {
		failed.set(boolean(!t.OK), t.VIP.String(), t.Cause)
		completed.set(unixSeconds(t.Checked), t.VIP.String())
	}
	return []*family{failed, completed}
}

// vipTestFamilies describes the tests of API VIPs that other hosts hold, and the test requests
// that this host received. A VIP has no series before the first answer or finding, and none while this
// host's own rules do not let the requests out, unless the VIP was unreachable before: a
// hostile proxy process must not end that alert.
func vipTestFamilies(r report.Report) []*family {
	reachable := gauge(prefix+"vip_reachable",
		"1 while this host reaches port 80 of another host's API VIP; 0 after three failed tests in a row, or if two hosts answer.", "vip")
	for _, t := range r.VIPTests {
		known := t.Cause != "" || t.Result == report.VIPAnswered || t.Instance != ""
		if known && (t.Result != report.VIPNotSent || t.Cause == string(findings.VIPUnreachableFromHere)) {
			reachable.set(boolean(t.Cause == ""), t.VIP.String())
		}
	}
	requests := counter(prefix+"test_requests_total",
		"Test requests of other hosts to API VIPs of this one, by source; further sources than 16 are counted as other. Anybody can send them.", "source")
	requests.set(float64(r.TestRequests.Others), "other")
	for _, s := range r.TestRequests.Sources {
		requests.set(float64(s.Count), s.Address.String())
	}
	tests := counter(prefix+"vip_tests_total", "Tests of port 80 of API VIPs that another host held, by result.", "result")
	for _, result := range report.VIPTestResults() {
		tests.set(float64(r.Events.VIPTests[result]), string(result))
	}
	return []*family{reachable, tests, requests}
}

// trustFamilies describes the CAs that verify TLS with the ingress. There are no series
// before the first report of the CA watcher, and none without TLS.
func trustFamilies(t report.Trust) []*family {
	in := gauge(prefix+"trust_certificates", "CAs that verify TLS with the ingress, by source.", "source")
	out := gauge(prefix+"trust_certificates_ignored", "Certificates of upstream.trustedCA that are ignored.")
	loaded := gauge(prefix+"trust_loaded_timestamp_seconds", "Time since which these CAs are in force, in seconds since 1970.")
	rejected := gauge(prefix+"trust_rejected", "1 while upstream.trustedCA is rejected, 0 otherwise; other CAs, or none, are in force then.")
	if t.Kind != "" && t.Kind != report.TrustUnused {
		in.set(float64(t.Certificates), string(t.Kind))
		out.set(float64(t.IgnoredTotal))
		rejected.set(boolean(t.Error != ""))
		if !t.Since.IsZero() {
			loaded.set(unixSeconds(t.Since))
		}
	}
	return []*family{in, out, loaded, rejected}
}

// egressFamilies describes the egress proxy. The configuration has eight endpoints at
// most. There are no series before the first report of the egress watcher.
func egressFamilies(e report.EgressProxy) []*family {
	accepted := gauge(prefix+"egress_proxy_accepted", "1 while the configured egress proxy, or none, is in force, 0 while it is not accepted yet or rejected.")
	through := gauge(prefix+"egress_proxy_ingress_addresses", "Ingress addresses and ports that are reached through the egress proxy.")
	endpoints := gauge(prefix+"egress_proxy_readiness_endpoint_ok", "1 if the readiness endpoint answered through the configured egress proxy, 0 otherwise; the label is its number in the configuration, from 1.", "endpoint")
	if e.Upstream != "" {
		accepted.set(boolean(!e.Pending && e.InvalidInput == ""))
		through.set(float64(len(e.Routes)))
		for i, endpoint := range e.Endpoints {
			endpoints.set(boolean(endpoint.OK), strconv.Itoa(i+1))
		}
	}
	return []*family{accepted, through, endpoints}
}

func unixSeconds(t time.Time) float64 { return float64(t.Unix()) }

func boolean(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// family is one metric with all its series. A series that is set twice occurs once:
// two series with the same labels would fail the whole scrape.
type family struct {
	name, help string
	kind       prometheus.ValueType
	labels     []string
	series     []series
}

type series struct {
	labels []string
	value  float64
}

func gauge(name, help string, labels ...string) *family {
	return &family{name: name, help: help, kind: prometheus.GaugeValue, labels: labels}
}

func counter(name, help string, labels ...string) *family {
	return &family{name: name, help: help, kind: prometheus.CounterValue, labels: labels}
}

func (f *family) seriesFor(labels []string) *series {
	for i, text := range labels {
		labels[i] = strings.ToValidUTF8(text, "\uFFFD")
	}
	for i := range f.series {
		if slices.Equal(f.series[i].labels, labels) {
			return &f.series[i]
		}
	}
	f.series = append(f.series, series{labels: labels})
	return &f.series[len(f.series)-1]
}

func (f *family) set(value float64, labels ...string) { f.seriesFor(labels).value = value }

func (f *family) add(value float64, labels ...string) { f.seriesFor(labels).value += value }

func (f *family) collect(out chan<- prometheus.Metric) {
	desc := prometheus.NewDesc(f.name, f.help, f.labels, nil)
	for _, s := range f.series {
		out <- prometheus.MustNewConstMetric(desc, f.kind, s.value, s.labels...)
	}
}

// outcomeLabels returns the outcomes of requests that were forwarded.
func outcomeLabels() []string { return labelValues(report.Outcomes()) }

// rejectionLabels returns the outcomes of requests that were rejected.
func rejectionLabels() []string { return labelValues(report.Rejections()) }

// clientLabels returns all values of the label client.
func clientLabels() []string { return labelValues(report.ClientKinds()) }

// causeLabels returns all values of the label cause.
func causeLabels() []string { return findings.Causes() }

func labelValues[T ~string](values []T) []string {
	all := make([]string, len(values))
	for i, v := range values {
		all[i] = string(v)
	}
	return all
}
