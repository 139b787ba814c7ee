// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// metricSet collects the metrics of a report.
type metricSet []*family

// newMetricSet returns all metrics but the histogram.
func newMetricSet(r report.Report) metricSet {
	var m metricSet
	m.gauge("up", "1 while the service runs.").set(1)
	m.gauge("build_info", "1; the labels describe the build of the running service.", "version", "revision", "goversion").
		set(1, r.Build.Version, r.Build.Revision, r.Build.GoVersion)
	m.gauge("ready", "1 while the condition HTTP01ChallengeProxyReady is True, 0 otherwise; the label is its reason.",
		"reason").set(boolean(r.Condition().Reason.Ready()), string(r.Condition().Reason))
	held := m.gauge("vip_held", "1 while this host holds the API VIP, 0 otherwise; the label management is BGP if "+
		"several hosts hold it at once, and empty otherwise.", "vip", "management")
	for _, v := range r.VIPs {
		held.set(boolean(v.State == report.VIPHeld), v.Address.String(), v.Management)
	}
	m.addRedirects(r.Table)
	m.addRequests(r.Traffic)
	m.addEvents(r.Events)
	m.addCertificates(r.Certificates)
	m.addSelfTests(r.SelfTests)
	m.addVIPTests(r)
	m.addTrust(r.Trust)
	m.addEgress(r.EgressProxy)
	return m
}

// addRedirects sums the counters of the rules that redirect connections of other hosts
// and pods. Connections of the host itself, among them the service's own requests, pass
// the output chain and are not counted. A rule of a nat chain counts the first packet of
// each connection. A table that cannot be read has no series. The kernel's counters begin
// at 0 with every new table.
func (m *metricSet) addRedirects(t report.Table) {
	f := m.counter("redirect_packets_total", "Packets to port 80 of the API VIPs that the nftables table redirected: "+
		"the first packet of each connection of another host or a pod.", "family")
	if t.Error != "" {
		return
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
}

func (m *metricSet) addRequests(t report.Traffic) {
	f := m.counter("requests_total", "Requests, rejected ones included, by outcome and client kind.", "outcome", "client")
	for _, client := range report.ClientKinds() {
		for _, outcome := range report.Outcomes() {
			f.set(0, string(outcome), string(client))
		}
		for _, rejection := range report.Rejections() {
			if rejection.HeadParsed() || client == report.OtherClient { // otherwise the client kind is not known
				f.set(0, string(rejection), string(client))
			}
		}
	}
	for _, c := range t.Requests {
		f.add(float64(c.Count), string(c.Outcome), string(c.ClientKind))
	}
	failed := m.counter("upstream_errors_total", "Requests without a usable answer of the ingress, by cause.", "cause")
	for _, cause := range findings.Causes() {
		failed.set(0, cause)
	}
	for cause, n := range t.UpstreamErrors {
		failed.add(float64(n), cause)
	}
}

func (m *metricSet) addEvents(e report.Events) {
	m.counter("vip_transitions_total", "Times that an API VIP came to this host or left it.").
		set(float64(e.VIPTransitions))
	m.counter("table_repairs_total", "Times that the nftables table was missing or changed, and was rebuilt.").
		set(float64(e.TableRepairs))
	reloads := m.counter("reloads_total", "Reloads of the configuration by result.", "result")
	for _, result := range []string{report.ReloadAccepted, report.ReloadRejected, report.ReloadUnchanged} {
		reloads.set(0, result)
	}
	for result, n := range e.Reloads {
		reloads.set(float64(n), result)
	}
}

// addCertificates selects, by name and issuer, the certificate that expires first:
// when addresses present different certificates, the worst one counts.
func (m *metricSet) addCertificates(found []report.Certificate) {
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
	after := m.gauge("api_certificate_not_after_seconds", "Expiry of the API server's certificate on the API VIPs, "+
		"in seconds since 1970; the label name is empty for a request without SNI.", "name", "issuer")
	before := m.gauge("api_certificate_not_before_seconds",
		"Start of the validity of that certificate, in seconds since 1970.", "name", "issuer")
	failed := m.gauge("api_certificate_failed_renewals", "Attempts to renew that certificate that failed, as far as "+
		"this host has observed their challenges since the service started.", "name", "issuer")
	attempts := m.gauge("api_certificate_renewal_attempts_left", "Estimate with cert-manager's defaults of the "+
		"attempts that it starts at most before that certificate expires; absent before its renewal is due.",
		"name", "issuer")
	for id, c := range first {
		after.set(unixSeconds(c.NotAfter), id.name, id.issuer)
		before.set(unixSeconds(c.NotBefore), id.name, id.issuer)
		if id.name == "" {
			continue // cert-manager does not renew it
		}
		failed.set(float64(c.FailedRenewals), id.name, id.issuer)
		if left := c.MaxAttemptsLeft; left != nil {
			attempts.set(float64(*left), id.name, id.issuer)
		}
	}
}

// addSelfTests describes the self-tests. There are no series while they are off, on
// standby, and before the first one is complete.
func (m *metricSet) addSelfTests(all []report.SelfTest) {
	failed := m.gauge("self_test_failed", "1 while the self-test of the API VIP fails, 0 otherwise; the label cause is "+
		"the ID of the finding, or empty.", "vip", "cause")
	completed := m.gauge("self_test_timestamp_seconds",
		"Time of the last self-test of the API VIP, in seconds since 1970.", "vip")
	for _, t := range all {
		failed.set(boolean(!t.OK), t.VIP.String(), t.Cause)
		completed.set(unixSeconds(t.Checked), t.VIP.String())
	}
}

// addVIPTests describes the tests of API VIPs that other hosts hold, and the test requests
// that this host received. A VIP has no series before the first answer or finding, and none
// while this host's own rules do not let the requests out, unless the VIP was unreachable
// before: a hostile proxy process must not end that alert.
func (m *metricSet) addVIPTests(r report.Report) {
	reachable := m.gauge("vip_reachable", "1 while this host reaches port 80 of another host's API VIP; 0 after three "+
		"failed tests in a row, or if two hosts answer.", "vip")
	for _, t := range r.VIPTests {
		known := t.Cause != "" || t.Result == report.VIPAnswered || t.Instance != ""
		if known && (t.Result != report.VIPNotSent || t.Cause == string(findings.VIPUnreachableFromHere)) {
			reachable.set(boolean(t.Cause == ""), t.VIP.String())
		}
	}
	requests := m.counter("test_requests_total", "Test requests of other hosts to API VIPs of this one, by source; "+
		"further sources than 16 are counted as other. Anybody can send them.", "source")
	requests.set(float64(r.TestRequests.Others), "other")
	for _, s := range r.TestRequests.Sources {
		requests.set(float64(s.Count), s.Address.String())
	}
	tests := m.counter("vip_tests_total", "Tests of port 80 of API VIPs that another host held, by result.", "result")
	for _, result := range report.VIPTestResults() {
		tests.set(float64(r.Events.VIPTests[result]), string(result))
	}
}

// addTrust describes the CAs that verify TLS with the ingress. There are no series
// before the first report of the CA watcher, and none without TLS.
func (m *metricSet) addTrust(t report.Trust) {
	if t.Kind == "" || t.Kind == report.TrustUnused {
		return
	}
	m.gauge("trust_certificates", "CAs that verify TLS with the ingress, by source.", "source").
		set(float64(t.Certificates), string(t.Kind))
	m.gauge("trust_certificates_ignored", "Certificates of upstream.trustedCA that are ignored.").
		set(float64(t.IgnoredTotal))
	m.gauge("trust_rejected",
		"1 while upstream.trustedCA is rejected, 0 otherwise; other CAs, or none, are in force then.").
		set(boolean(t.Error != ""))
	if !t.Since.IsZero() {
		m.gauge("trust_loaded_timestamp_seconds", "Time since which these CAs are in force, in seconds since 1970.").
			set(unixSeconds(t.Since))
	}
}

// addEgress describes the egress proxy. The configuration has eight endpoints at
// most. There are no series before the first report of the egress watcher.
func (m *metricSet) addEgress(e report.EgressProxy) {
	if e.Upstream == "" {
		return
	}
	m.gauge("egress_proxy_accepted",
		"1 while the configured egress proxy, or none, is in force, 0 while it is not accepted yet or rejected.").
		set(boolean(!e.Pending && e.InvalidInput == ""))
	m.gauge("egress_proxy_ingress_addresses", "Ingress addresses and ports that are reached through the egress proxy.").
		set(float64(len(e.Routes)))
	endpoints := m.gauge("egress_proxy_readiness_endpoint_ok", "1 if the readiness endpoint answered through the "+
		"configured egress proxy, 0 otherwise; the label is its number in the configuration, from 1.", "endpoint")
	for i, endpoint := range e.Endpoints {
		endpoints.set(boolean(endpoint.OK), strconv.Itoa(i+1))
	}
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

func (m *metricSet) gauge(name, help string, labels ...string) *family {
	return m.newFamily(family{name: prefix + name, help: help, kind: prometheus.GaugeValue, labels: labels})
}

func (m *metricSet) counter(name, help string, labels ...string) *family {
	return m.newFamily(family{name: prefix + name, help: help, kind: prometheus.CounterValue, labels: labels})
}

func (m *metricSet) newFamily(f family) *family {
	*m = append(*m, &f)
	return &f
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
