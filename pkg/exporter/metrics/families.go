// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// metricSet collects the metrics of a report.
type metricSet []*family

// newMetricSet returns all metrics. Every help text stands alone: many readers see nothing but
// the line `# HELP`. It has no backslash and no line feed, which the text format escapes. The
// labels of a metric are in alphabetical order.
func newMetricSet(r report.Report) metricSet {
	var m metricSet
	m.gauge("up", "1 while http01-proxyd runs on this host.").set(1)
	m.gauge("build_info", "Always 1, with the version, the commit and the Go release of http01-proxyd.",
		fromHost("goversion"), fromHost("revision"), fromHost("version")).
		set(1, r.Build.GoVersion, r.Build.Revision, r.Build.Version)
	m.gauge("ready", "1 while http01-proxyd is ready (condition HTTP01ChallengeProxyReady), 0 otherwise. Label "+
		"reason: its state. Other states have no series.",
		oneOf("reason", reasons()...)).set(boolean(r.Condition().Reason.Ready()), string(r.Condition().Reason))
	held := m.gauge("vip_held", "1 while this host holds the API VIP (the virtual IP address of the Kubernetes API), 0 "+
		"otherwise. Label management: BGP if several hosts announce the VIP at the same time, or empty.",
		oneOf("management", report.ManagementBGP), fromHost("vip"))
	for _, v := range r.VIPs {
		held.set(boolean(v.State == report.VIPHeld), v.Management, v.Address.String())
	}
	m.addRedirects(r.Table)
	m.addRequests(r.Traffic)
	m.addDurations(r.Traffic.Durations)
	m.addEvents(r.Events)
	m.addCertificates(r.Certificates)
	m.addSelfTests(r.SelfTests)
	m.addVIPTests(r)
	m.addTrust(r.Trust)
	m.addEgress(r.EgressProxy)
	return m
}

// reasons returns the states that the label reason can name.
func reasons() []report.Reason {
	return []report.Reason{
		report.Serving, report.Standby, report.NotRequired, report.Starting, report.InvalidConfig, report.NoVIPs,
		report.ExternalLoadBalancer, report.NftablesUnavailable, report.PortInUse, report.UpstreamUnreachable,
		report.ProxyUnavailable, report.Disabled, report.NotRunning, report.NotReachable,
	}
}

// addRedirects sums the counters of the rules that redirect connections of other hosts
// and pods. Connections of the host itself, among them the service's own requests, pass
// the output chain and are not counted. A rule of a nat chain counts the first packet of
// each connection. A table that cannot be read has no series. The kernel's counters begin
// at 0 with every new table.
func (m *metricSet) addRedirects(t report.Table) {
	f := m.counter("redirected_connections_total", "Connections of other hosts and of pods to port 80 of the API VIPs "+
		"that nftables redirected to http01-proxyd. Starts at 0 with each new table.",
		oneOf("family", "ipv4", "ipv6"))
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
	outcomes := toText(report.Outcomes())
	outcomes = append(outcomes, toText(report.Rejections())...)
	f := m.counter("requests_total", "Requests to port 80 of the API VIPs, rejected ones included, by outcome and by "+
		"kind of client. The client kind comes from User-Agent, which can be forged.",
		oneOf("client", report.ClientKinds()...), oneOf("outcome", outcomes...))
	for _, client := range report.ClientKinds() {
		for _, outcome := range report.Outcomes() {
			f.set(0, string(client), string(outcome))
		}
		for _, rejection := range report.Rejections() {
			if rejection.HeadParsed() || client == report.OtherClient { // otherwise the client kind is not known
				f.set(0, string(client), string(rejection))
			}
		}
	}
	for _, c := range t.Requests {
		f.add(float64(c.Count), string(c.ClientKind), string(c.Outcome))
	}
	failed := m.counter("upstream_errors_total", "Challenge requests that failed at the ingress, by the ID of the cause. "+
		"http01-proxyd explain ID prints the remediation.",
		oneOf("cause", findings.Causes()...))
	for _, cause := range findings.Causes() {
		failed.set(0, cause)
	}
	for cause, n := range t.UpstreamErrors {
		failed.add(float64(n), cause)
	}
}

func (m *metricSet) addEvents(e report.Events) {
	m.counter("vip_transitions_total", "Number of times that an API VIP arrived on this host or left it.").set(float64(e.VIPTransitions))
	m.counter("table_repairs_total", "Number of times that http01-proxyd restored its nftables table, missing or changed "+
		"by another program.").set(float64(e.TableRepairs))
	results := []string{report.ReloadAccepted, report.ReloadRejected, report.ReloadUnchanged}
	reloads := m.counter("reloads_total", "Number of times that http01-proxyd read its configuration file again, by result: "+
		"accepted, rejected (the last accepted configuration stays in use) or unchanged.",
		oneOf("result", results...))
	for _, result := range results {
		reloads.set(0, result)
	}
	for result, n := range e.Reloads {
		reloads.add(float64(n), result)
	}
}

// addCertificates selects, by name, the certificate that expires first: when addresses
// present different certificates, the worst one counts. The issuer is no label: whoever
// answers on port 6443 chooses it.
func (m *metricSet) addCertificates(found []report.Certificate) {
	first := make(map[string]report.Certificate)
	for _, c := range found {
		if c.NotAfter.IsZero() {
			continue // no certificate was received
		}
		if other, is := first[c.Name]; !is || c.NotAfter.Before(other.NotAfter) {
			first[c.Name] = c
		}
	}
	after := m.gauge("api_certificate_not_after_timestamp_seconds", "Expiry of the Kubernetes API server's "+
		"certificate on the API VIPs, the earliest if they differ, in seconds since 1970. Label name: the requested "+
		"name (SNI), or empty.", fromHost("name"))
	before := m.gauge("api_certificate_not_before_timestamp_seconds", "Start of the validity of the Kubernetes API "+
		"server's certificate on the API VIPs, in seconds since 1970. Label name: the requested name (SNI), or empty.",
		fromHost("name"))
	failed := m.gauge("api_certificate_failed_renewals", "Failed attempts to renew the Kubernetes API server's "+
		"present certificate that this host observed since http01-proxyd started. Label name: the requested name (SNI).",
		fromHost("name"))
	attempts := m.gauge("api_certificate_renewal_attempts_left", "Limit of the attempts that cert-manager, with its "+
		"default delays, still starts by itself before the Kubernetes API server's certificate expires. Set while the "+
		"renewal is due. Label name: the requested name (SNI).", fromHost("name"))
	for name, c := range first {
		after.set(unixSeconds(c.NotAfter), name)
		before.set(unixSeconds(c.NotBefore), name)
		if name == "" {
			continue // cert-manager does not renew it
		}
		failed.set(float64(c.FailedRenewals), name)
		if left := c.MaxAttemptsLeft; left != nil {
			attempts.set(float64(*left), name)
		}
	}
}

// addSelfTests describes the self-tests. There are no series while they are off, on
// standby, and before the first one is complete.
func (m *metricSet) addSelfTests(all []report.SelfTest) {
	failed := m.gauge("self_test_failed", "1 while the self-test of an API VIP on this host fails, and 0 while it "+
		"succeeds. The test requests a nonexistent challenge from port 80 of the VIP. Label cause: the ID of the fault, "+
		"or empty.", oneOf("cause", findingIDs()...), fromHost("vip"))
	completed := m.gauge("self_test_timestamp_seconds", "Time of the last self-test of an API VIP on this host, in "+
		"seconds since 1970.", fromHost("vip"))
	for _, t := range all {
		failed.set(boolean(!t.OK), t.Cause, t.VIP.String())
		completed.set(unixSeconds(t.Checked), t.VIP.String())
	}
}

func findingIDs() (all []findings.ID) {
	for _, e := range findings.All() {
		all = append(all, e.ID)
	}
	return all
}

// addVIPTests describes the tests of API VIPs that other hosts hold, and the test requests
// that this host received. Their sources are no label: anybody can send them. A VIP has no
// series before the first answer or finding, and none while this host's own rules do not
// let the requests out, unless the VIP was unreachable before: a hostile proxy process must
// not end that alert.
func (m *metricSet) addVIPTests(r report.Report) {
	reachable := m.gauge("vip_reachable", "1 while this host reaches http01-proxyd on port 80 of an API VIP that another "+
		"host holds. 0 after three failed tests in a row, or if two hosts answer.", fromHost("vip"))
	for _, t := range r.VIPTests {
		known := t.Cause != "" || t.Result == report.VIPAnswered || t.Instance != ""
		if known && (t.Result != report.VIPNotSent || t.Cause == string(findings.VIPUnreachableFromHere)) {
			reachable.set(boolean(t.Cause == ""), t.VIP.String())
		}
	}
	m.counter("test_requests_total", "Test requests that this host received on port 80 of its API VIPs, from other "+
		"control-plane hosts or anybody else.").set(float64(r.TestRequests.Total))
	tests := m.counter("vip_tests_total", "Test requests that this host sent to port 80 of API VIPs on other hosts, by "+
		"result.", oneOf("result", report.VIPTestResults()...))
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
	m.gauge("trust_certificates", "Number of CA certificates that http01-proxyd trusts for TLS to the ingress. Label "+
		"source: admin (upstream.trustedCA), last-good (its content before it was rejected), system (the CAs of this host) "+
		"or none.", oneOf("source", report.TrustAdmin, report.TrustLastGood, report.TrustSystem, report.TrustNone)).
		set(float64(t.Certificates), string(t.Kind))
	m.gauge("trust_certificates_ignored", "Number of certificates in the file of upstream.trustedCA that "+
		"http01-proxyd does not trust, such as expired ones.").
		set(float64(t.IgnoredTotal))
	m.gauge("trust_rejected", "1 while http01-proxyd rejects the file of upstream.trustedCA and uses other CAs or "+
		"none for TLS to the ingress, 0 otherwise.").
		set(boolean(t.Error != ""))
	if !t.Since.IsZero() {
		m.gauge("trust_loaded_timestamp_seconds", "Time at which http01-proxyd loaded the CAs that it trusts for TLS to the "+
			"ingress, in seconds since 1970.").set(unixSeconds(t.Since))
	}
}

// addEgress describes the egress proxy. The configuration has eight endpoints at
// most. There are no series before the first report of the egress watcher.
func (m *metricSet) addEgress(e report.EgressProxy) {
	if e.Upstream == "" {
		return
	}
	m.gauge("egress_proxy_accepted", "1 while http01-proxyd uses the configured egress proxy, or while none is configured. "+
		"0 while it has not accepted the proxy yet or rejects its setting.").
		set(boolean(!e.Pending && e.InvalidInput == ""))
	m.gauge("egress_proxy_ingress_addresses", "Number of ingress addresses that http01-proxyd reaches through the egress "+
		"proxy.").set(float64(len(e.Routes)))
	endpoints := m.gauge("egress_proxy_readiness_endpoint_ok", "1 if the readiness endpoint answered through the configured "+
		"egress proxy, 0 otherwise. Label endpoint: its position in egressProxy.readinessEndpoints, from 1.",
		fromHost("endpoint"))
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

// label is a label of a family. No client, certificate or child process can create series
// without bound: a value that is not in the fixed set is replaced by [otherValue].
type label struct {
	name   string
	values []string // nil: any, from the host's own files or from the build
}

// otherValue replaces an unknown value of a label with a fixed set.
const otherValue = "other"

// oneOf is a label with a fixed set of values. It can be empty, too.
func oneOf[T ~string](name string, values ...T) label { return label{name, toText(values)} }

// fromHost is a label whose values root has configured on this host: VIPs, accepted names,
// the positions of endpoints, and the build.
func fromHost(name string) label { return label{name: name} }

func (l label) bounded(value string) string {
	if l.values == nil || value == "" || slices.Contains(l.values, value) {
		return strings.ToValidUTF8(value, "\uFFFD")
	}
	return otherValue
}

func toText[T ~string](values []T) []string {
	all := make([]string, len(values))
	for i, v := range values {
		all[i] = string(v)
	}
	return all
}

// family is one metric with all its series. A series that is set twice occurs once:
// two series with the same labels would fail the whole scrape.
type family struct {
	kind, name, help string
	labels           []label
	series           []series
}

type series struct {
	suffix string // of the name, in a histogram
	labels []string
	value  float64
}

func (m *metricSet) gauge(name, help string, labels ...label) *family {
	return m.newFamily("gauge", name, help, labels...)
}

func (m *metricSet) counter(name, help string, labels ...label) *family {
	return m.newFamily("counter", name, help, labels...)
}

func (m *metricSet) newFamily(kind, name, help string, labels ...label) *family {
	f := &family{kind: kind, name: prefix + name, help: help, labels: labels}
	*m = append(*m, f)
	return f
}

func (f *family) seriesFor(values []string) *series {
	for i, value := range values {
		values[i] = f.labels[i].bounded(value)
	}
	for i := range f.series {
		if slices.Equal(f.series[i].labels, values) {
			return &f.series[i]
		}
	}
	f.series = append(f.series, series{labels: values})
	return &f.series[len(f.series)-1]
}

func (f *family) set(value float64, labels ...string) { f.seriesFor(labels).value = value }

func (f *family) add(value float64, labels ...string) { f.seriesFor(labels).value += value }
