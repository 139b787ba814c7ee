// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const metricsPort = "9645"

// startWithMetrics runs the service with metrics on every control-plane node.
func startWithMetrics(t *testing.T, l *Lab, more string) []*Service {
	t.Helper()
	var services []*Service
	for _, m := range l.ControlPlane {
		config := m.TestConfig(0) + // test requests change the metrics between two readings
			"metrics: {listenAddress: \":" + metricsPort + "\"}\n" + more
		services = append(services, start(t, m.Node, ServiceOptions{Config: config}))
	}
	awaitHolder(t, l, services, 0)
	return services
}

// scrapeMetrics reads the metrics of an address from a node.
func scrapeMetrics(ctx context.Context, from *Node, address netip.Addr) (string, error) {
	answer, err := from.Get(ctx, "http://"+net.JoinHostPort(address.String(), metricsPort)+"/metrics")
	if err == nil && answer.Status != http.StatusOK {
		err = fmt.Errorf("status %d: %s", answer.Status, answer.Body)
	}
	return answer.Body, err
}

// values parses metrics and returns the value of each series by its text.
func values(text string) map[string]float64 {
	all := map[string]float64{}
	for line := range strings.Lines(text) {
		series, value, is := strings.Cut(strings.TrimSpace(line), "} ")
		if is {
			series += "}"
		} else {
			series, value, _ = strings.Cut(strings.TrimSpace(line), " ")
		}
		if v, err := strconv.ParseFloat(value, 64); err == nil && !strings.HasPrefix(line, "#") {
			all[series] = v
		}
	}
	return all
}

// awaitSeries scrapes until the series have these values, and returns the text.
func awaitSeries(t *testing.T, from *Node, address netip.Addr, want map[string]float64) (text string) {
	t.Helper()
	must(t, Eventually(t.Context(), "metrics of "+address.String(), func(ctx context.Context) error {
		var err error
		if text, err = scrapeMetrics(ctx, from, address); err != nil {
			return err
		}
		all, got := values(text), map[string]float64{}
		for series := range want {
			if value, is := all[series]; is {
				got[series] = value
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("(-want +got):\n%s", diff)
		}
		return nil
	}))
	return text
}

// TestMetrics scrapes from another node after a whole order and other requests.
func TestMetrics(t *testing.T) {
	l, _ := cluster(t)
	services := startWithMetrics(t, l, "")
	name := publishName(t, l, "metrics", l.API)
	orderCertificate(t, l, name, l.Pods[1])
	for _, vip := range l.API.Both() {
		answer, err := l.Internet.Get(t.Context(), "http://"+net.JoinHostPort(vip.String(), "80")+"/metrics")
		if err != nil || answer.Status != http.StatusBadRequest {
			t.Errorf("metrics on port 80 of %s: %d %v", vip, answer.Status, err)
		}
	}
	holder, standby := l.ControlPlane[0], l.ControlPlane[1]
	text := awaitSeries(t, l.Worker.Node, holder.Addresses.V4, map[string]float64{
		`http01_proxy_up`:                      1,
		`http01_proxy_ready{reason="Serving"}`: 1,
		`http01_proxy_vip_held{management="",vip="` + l.API.V4.String() + `"}`:  1,
		`http01_proxy_vip_held{management="",vip="` + l.API.V6.String() + `"}`:  1,
		`http01_proxy_requests_total{client="cert-manager",outcome="ok"}`:       5,
		`http01_proxy_requests_total{client="pebble",outcome="ok"}`:             3,
		`http01_proxy_requests_total{client="step-ca",outcome="not-challenge"}`: 2, // the User-Agent of Go programs
		`http01_proxy_requests_total{client="other",outcome="upstream-error"}`:  0,
		`http01_proxy_request_duration_seconds_count`:                           8,
		`http01_proxy_request_duration_seconds_bucket{le="+Inf"}`:               8,
		`http01_proxy_upstream_errors_total{cause="ingress-refused"}`:           0,
		`http01_proxy_table_repairs_total`:                                      0,
		`http01_proxy_reloads_total{result="accepted"}`:                         0,
	})
	// A client that prefers IPv6 also tries IPv4 when the answer is slow, and a VIP moves
	// again when an advertisement is late.
	seen := values(text)
	v4, v6 := seen[`http01_proxy_redirected_connections_total{family="ipv4"}`],
		seen[`http01_proxy_redirected_connections_total{family="ipv6"}`]
	if v4 < 1 || v6 < 1 || v4+v6 < 10 {
		t.Errorf("%v and %v redirected connections, want at least 10 over both families", v4, v6)
	}
	moves := seen[`http01_proxy_vip_transitions_total`]
	if moves < 2 {
		t.Errorf("%v VIP transitions, want at least two", moves)
	}
	if !regexp.MustCompile(
		`http01_proxy_build_info{goversion="go[^"]+",revision="[^"]*",version="[^"]+"} 1\n`).MatchString(text) {
		t.Errorf("no http01_proxy_build_info:\n%s", text)
	}
	if _, err := l.Worker.Input(t.Context(), text, "promtool", "check", "metrics"); err != nil {
		t.Error(err)
	}
	awaitSeries(t, l.Worker.Node, standby.Addresses.V6, map[string]float64{
		`http01_proxy_ready{reason="Standby"}`:                                 1,
		`http01_proxy_vip_held{management="",vip="` + l.API.V4.String() + `"}`: 0,
		`http01_proxy_requests_total{client="cert-manager",outcome="ok"}`:      0,
		`http01_proxy_vip_transitions_total`:                                   0,
	})
	printed, err := holder.Run(t.Context(), services[0].binary, "status", "--status-socket", holder.StatusSocket(), "-o",
		"prometheus")
	must(t, err)
	if diff := cmp.Diff(text, printed); diff != "" {
		t.Errorf("metrics (-scraped +status):\n%s", diff)
	}

	// An unreachable ingress, a reload, and VIPs that leave.
	must(t, l.Worker.StopKeepalived(t.Context()))
	answer, err := l.Internet.Get(t.Context(), "http://"+net.JoinHostPort(l.API.V4.String(), "80")+acmePrefix+"token")
	if err != nil || answer.Status < 500 {
		t.Errorf("a challenge without an ingress: %d %v", answer.Status, err)
	}
	must(t, l.Worker.StartKeepalived(t.Context()))
	must(t, services[0].Reload())
	must(t, holder.StopKeepalived(t.Context()))
	text = awaitSeries(t, l.Worker.Node, holder.Addresses.V4, map[string]float64{
		`http01_proxy_ready{reason="Standby"}`:                                   1,
		`http01_proxy_vip_held{management="",vip="` + l.API.V4.String() + `"}`:   0,
		`http01_proxy_vip_held{management="",vip="` + l.API.V6.String() + `"}`:   0,
		`http01_proxy_requests_total{client="step-ca",outcome="upstream-error"}`: 1,
		`http01_proxy_reloads_total{result="unchanged"}`:                         1,
	})
	if after := values(text)[`http01_proxy_vip_transitions_total`]; after < moves+2 {
		t.Errorf("%v VIP transitions, and %v before both left", after, moves)
	}
	must(t, holder.StartKeepalived(t.Context()))
	must(t, l.AwaitVIPs(t.Context()))
}

// TestMetricsServedByExporter holds that the process on the metrics port has no capability
// and that the controller does not listen there.
func TestMetricsServedByExporter(t *testing.T) {
	l, _ := cluster(t)
	services := startWithMetrics(t, l, "")
	m := l.ControlPlane[0]
	awaitSeries(t, l.Worker.Node, m.Addresses.V4, map[string]float64{`http01_proxy_up`: 1})
	listeners, err := m.Run(t.Context(), "ss", "-Hltnp", "sport = :"+metricsPort)
	must(t, err)
	owners := regexp.MustCompile(`pid=([0-9]+)`).FindAllStringSubmatch(listeners, -1)
	if len(owners) != 1 || owners[0][1] == strconv.Itoa(services[0].PID()) {
		t.Fatalf("listeners:\n%s", listeners)
	}
	status, err := m.Run(t.Context(), "cat", "/proc/"+owners[0][1]+"/status")
	must(t, err)
	for _, want := range []string{
		"CapPrm:\t0000000000000000", "CapEff:\t0000000000000000", "CapAmb:\t0000000000000000",
		"NoNewPrivs:\t1", "Seccomp:\t2",
	} {
		if !strings.Contains(status, "\n"+want+"\n") {
			t.Errorf("the exporter lacks %q:\n%s", want, status)
		}
	}
	if err := errors.Join(services[0].Alive(), services[1].Alive()); err != nil {
		t.Error(err)
	}
}
