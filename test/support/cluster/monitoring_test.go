// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/http01-proxyd/http01-proxyd/test/support/cluster"
	"github.com/http01-proxyd/http01-proxyd/test/support/host"
	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

const (
	nodeExporter     = "prometheus-node-exporter" // from Debian, as on this machine
	nodeExporterPath = "/usr/local/bin/" + nodeExporter
	configPath       = "/etc/http01-proxyd/config.yaml"
	apiServerURL     = "/etc/kubernetes/apiserver-url.env"
	manifests        = "machineconfigs/monitoring/"

	// recordVariable names the file for the series that Prometheus has collected. The suite monitoring has
	// the last record and runs the queries of the dashboard on it.
	recordVariable = "RECORD_METRICS"
	recordStep     = 2 * time.Second
)

// TestMonitoring runs Prometheus as machineconfigs/monitoring configures OpenShift's. The
// queries of the dashboard and of the alerts must return values.
func TestMonitoring(t *testing.T) {
	c := useCluster(t)
	before := snapshots(t, c)
	// The cluster is restored also after a failure.
	t.Run("while it runs", func(t *testing.T) { expectMonitoring(t, c) })
	uninstallMonitoring(t, c)
	expectUnchanged(t, c, before)
}

func expectMonitoring(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	name := "api." + c.Lab.Domain
	serveCertificate(t, c, name)
	exporter := must1(exec.LookPath(nodeExporter))(t)
	each(t, c, func(_ context.Context, _ int, m *host.Host) error {
		return errors.Join(
			m.WriteFile(configPath, fmt.Sprintf("metrics: {listenAddress: %q}\nselfTest: {interval: 10s}\n", ":9645"), 0o644),
			// the certificate watcher reads the name there
			m.WriteFile(apiServerURL, lab.APIServerURLText("api-int."+c.Lab.Domain), 0o644),
			m.Install(exporter, nodeExporterPath, 0o755))
	})
	installService(t, c)
	must(t, c.AwaitServing(t.Context(), c.ControlPlane[0]))
	each(t, c, startNodeExporter)
	begin := time.Now()
	p := startPrometheus(t, c)
	p.awaitScraped(t)

	expectCertificate(t, c, "api")
	expectStatus(t, c, "http://"+name+"/.well-known/acme-challenge/no-such-token", http.StatusServiceUnavailable)
	expectStatus(t, c, "http://"+name+"/elsewhere", http.StatusBadRequest)
	must1(c.ControlPlane[0].Run(t.Context(), "systemctl", "reload", unit))(t)

	for _, q := range dashboardQueries(t) {
		t.Run(q.title+" "+q.id, func(t *testing.T) {
			must(t, lab.Eventually(t.Context(), "a value of "+q.expr, func(ctx context.Context) error {
				return p.checkValue(ctx, q.expr)
			}))
		})
	}

	if file := os.Getenv(recordVariable); file != "" {
		p.record(t, file, begin)
	}

	// One fault for each exporter: Prometheus does not report rules that it cannot
	// evaluate.
	must1(c.ControlPlane[2].Run(t.Context(), "systemctl", "stop", unit))(t)
	for _, series := range []string{
		`ALERTS{alertname="HTTP01ProxyDown",instance="master2",alertstate="pending"}`,
		`ALERTS{alertname="HTTP01APICertificateExpiring",severity="warning",name="` + name + `",alertstate="pending"}`,
		`ALERTS{alertname="HTTP01APICertificateExpiring",severity="warning",name="",alertstate="pending"}`,
	} {
		must(t, lab.Eventually(t.Context(), series, func(ctx context.Context) error { return p.checkValue(ctx, series) }))
	}
	p.expectHealthyRules(t)
}

// query is a query of the dashboard.
type query struct{ title, id, expr string }

func dashboardQueries(t *testing.T) []query {
	t.Helper()
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr, RefID string }
		}
	}
	must(t, json.Unmarshal(repositoryFile(t, manifests+"grafana/http01-proxyd.json"), &dashboard))
	var all []query
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			all = append(all, query{p.Title, target.RefID, target.Expr})
		}
	}
	if len(all) < 15 {
		t.Fatalf("the dashboard has %d queries, want more", len(all))
	}
	return all
}

// startNodeExporter runs node_exporter with the collector and the units of the snippet for
// cluster-monitoring-config. OpenShift's operator joins the units into one pattern.
func startNodeExporter(ctx context.Context, _ int, m *host.Host) error {
	text, err := os.ReadFile(filepath.Join(host.Repository(), manifests, "config/cluster-monitoring-config.yaml"))
	if err != nil {
		return err
	}
	var snippet struct{ Data map[string]string }
	if err := yaml.Unmarshal(text, &snippet); err != nil {
		return err
	}
	var config struct {
		NodeExporter struct {
			Collectors struct {
				Systemd struct{ Units []string }
			}
		}
	}
	if err := yaml.Unmarshal([]byte(snippet.Data["config.yaml"]), &config); err != nil {
		return err
	}
	units := strings.Join(config.NodeExporter.Collectors.Systemd.Units, "|")
	_, err = m.Run(ctx, "systemd-run", "--quiet", "--collect", "--unit=node-exporter", nodeExporterPath,
		"--collector.disable-defaults", "--collector.systemd", "--collector.systemd.unit-include=^("+units+")$")
	return err
}

// expectStatus sends one request from the internet to a name with the API VIPs.
func expectStatus(t *testing.T, c *cluster.Cluster, url string, want int) {
	t.Helper()
	answer, err := c.Lab.Internet.Get(t.Context(), url)
	if err != nil || answer.Status != want {
		t.Fatalf("%s: %d, %v, want %d", url, answer.Status, err, want)
	}
}

// serveCertificate has every control-plane host present a certificate on port 6443, as the
// API server does. Its 90 days are almost over.
func serveCertificate(t *testing.T, c *cluster.Cluster, name string) {
	t.Helper()
	const day = 24 * time.Hour
	expiring := must1(lab.Issue("late", 90*day, 18*day, name))(t)
	for _, m := range c.ControlPlane {
		server := must1(lab.ServeAPI(t.Context(), m.Listen, func(string, netip.Addr) *tls.Certificate { return expiring }))(t)
		t.Cleanup(func() {
			if err := server.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// prometheus runs on the lab's worker.
type prometheus struct {
	*lab.Process

	node              *lab.Node
	address           string
	controlPlaneHosts int
}

// startPrometheus runs Debian's Prometheus with the rules of the PrometheusRule. The targets
// and labels come from the ServiceMonitor and from OpenShift's own for node_exporter.
func startPrometheus(t *testing.T, c *cluster.Cluster) *prometheus {
	t.Helper()
	var object struct{ Spec json.RawMessage }
	must(t, yaml.Unmarshal(repositoryFile(t, manifests+"prometheusrule.yaml"), &object))
	var proxyTargets, nodeTargets strings.Builder
	for i, m := range c.ControlPlane {
		address := c.Lab.ControlPlaneAddresses(i)[0].Addr()
		fmt.Fprintf(&proxyTargets, "  - {targets: [%q], labels: {instance: %s}}\n", netip.AddrPortFrom(address, 9645), m)
		fmt.Fprintf(&nodeTargets, "  - {targets: [%q], labels: {instance: %s}}\n", netip.AddrPortFrom(address, 9100), m)
	}
	worker := c.Lab.Worker.Node
	dir := filepath.Join(worker.Dir, "prometheus")
	must(t, os.Mkdir(dir, 0o750))
	must(t, os.WriteFile(filepath.Join(dir, "rules.yaml"), must1(yaml.JSONToYAML(object.Spec))(t), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "prometheus.yml"),
		[]byte(`global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}
rule_files: [rules.yaml]
scrape_configs:
- job_name: http01-proxyd
  static_configs:
`+proxyTargets.String()+`- job_name: node-exporter
  static_configs:
`+nodeTargets.String()), 0o600))
	p := &prometheus{
		node: worker, address: netip.AddrPortFrom(worker.Addresses.V4, 9090).String(),
		controlPlaneHosts: len(c.ControlPlane),
	}
	process, err := worker.Start(lab.Command{Name: "prometheus", Path: "prometheus", Args: []string{
		"--config.file=" + filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path=" + filepath.Join(dir, "data"),
		"--web.listen-address=" + p.address, "--log.level=warn",
	}})
	must(t, err)
	p.Process = process
	t.Cleanup(func() {
		if err := process.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		must(t, os.RemoveAll(dir))
	})
	return p
}

// awaitScraped waits until every target was scraped twice, so that later changes are an
// increase.
func (p *prometheus) awaitScraped(t *testing.T) {
	t.Helper()
	q := fmt.Sprintf("count(count_over_time(up[1m]) > 1 and up == 1) == %d", 2*p.controlPlaneHosts)
	must(t, lab.Eventually(t.Context(), "all targets scraped", func(ctx context.Context) error {
		err := p.checkValue(ctx, q)
		if err != nil {
			seen, _ := p.get(ctx, "/api/v1/targets?state=active")
			err = fmt.Errorf("%w\n%s", err, seen)
		}
		return err
	}))
}

// checkValue returns an error unless a query returns at least one series and only numbers.
func (p *prometheus) checkValue(ctx context.Context, expr string) error {
	answer, err := p.get(ctx, "/api/v1/query?query="+url.QueryEscape(expr))
	if err != nil {
		return err
	}
	var body struct {
		Data struct {
			Result []struct {
				Metric map[string]string
				Value  []any
			}
		}
	}
	if err := json.Unmarshal(answer, &body); err != nil {
		return fmt.Errorf("%w: %s", err, answer)
	}
	if len(body.Data.Result) == 0 {
		return fmt.Errorf("%s returns no series", expr)
	}
	for _, r := range body.Data.Result {
		text, _ := r.Value[1].(string)
		if _, err := strconv.ParseFloat(text, 64); err != nil || text == "NaN" {
			return fmt.Errorf("%s returns %q for %v", expr, text, r.Metric)
		}
	}
	return nil
}

// record writes the series since a time: a line with the first time and the step in seconds, and a line for
// each series with its values. A value that is missing is "_".
func (p *prometheus) record(t *testing.T, file string, begin time.Time) {
	t.Helper()
	// The certificates come last. Several samples of each series are recorded.
	const last = "http01_proxy_api_certificate_failed_renewals offset 10s"
	must(t, lab.Eventually(t.Context(), last, func(ctx context.Context) error { return p.checkValue(ctx, last) }))
	begin = begin.Truncate(recordStep)
	count := int(time.Since(begin) / recordStep)
	answer := must1(p.get(t.Context(), "/api/v1/query_range?"+url.Values{
		"query": {`{__name__=~"http01_proxy_.*|node_systemd_unit_state"}`},
		"start": {strconv.FormatInt(begin.Unix(), 10)},
		"end":   {strconv.FormatInt(begin.Add(time.Duration(count)*recordStep).Unix(), 10)},
		"step":  {recordStep.String()},
	}.Encode()))(t)
	var body struct {
		Data struct {
			Result []struct {
				Metric map[string]string
				Values [][]any
			}
		}
	}
	must(t, json.Unmarshal(answer, &body))
	lines := make([]string, 0, len(body.Data.Result))
	for _, r := range body.Data.Result {
		values := slices.Repeat([]string{"_"}, count+1)
		for _, v := range r.Values {
			at, _ := v[0].(float64)
			values[int((at-float64(begin.Unix()))/recordStep.Seconds())], _ = v[1].(string)
		}
		var labels []string
		for _, name := range slices.Sorted(maps.Keys(r.Metric)) {
			if name != "__name__" {
				labels = append(labels, fmt.Sprintf("%s=%q", name, r.Metric[name]))
			}
		}
		lines = append(lines, r.Metric["__name__"]+"{"+strings.Join(labels, ",")+"} "+strings.Join(values, " ")+"\n")
	}
	slices.Sort(lines)
	text := fmt.Sprintf("%d %d\n", begin.Unix(), int(recordStep.Seconds())) + strings.Join(lines, "")
	must(t, os.WriteFile(file, []byte(text), 0o600))
}

func (p *prometheus) expectHealthyRules(t *testing.T) {
	t.Helper()
	answer := must1(p.get(t.Context(), "/api/v1/rules"))(t)
	var body struct {
		Data struct {
			Groups []struct {
				Rules []struct{ Name, Health, LastError string }
			}
		}
	}
	must(t, json.Unmarshal(answer, &body))
	seen := 0
	for _, g := range body.Data.Groups {
		for _, r := range g.Rules {
			seen++
			if r.Health != "ok" {
				t.Errorf("%s is %s: %s", r.Name, r.Health, r.LastError)
			}
		}
	}
	if seen < 8 {
		t.Errorf("Prometheus has %d rules, want more", seen)
	}
}

func (p *prometheus) get(ctx context.Context, path string) ([]byte, error) {
	if err := p.Alive(); err != nil {
		return nil, err
	}
	answer, err := p.node.Get(ctx, "http://"+p.address+path)
	if err == nil && answer.Status != http.StatusOK {
		err = fmt.Errorf("%d: %s", answer.Status, answer.Body)
	}
	return []byte(answer.Body), err
}

func uninstallMonitoring(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	uninstall(t, c)
	for _, m := range c.ControlPlane {
		if _, err := m.Run(t.Context(), "systemctl", "stop", "node-exporter.service"); err != nil {
			t.Error(err)
		}
		must(t, errors.Join(m.RemoveFile(nodeExporterPath), m.RemoveFile(filepath.Dir(configPath)),
			m.RemoveFile(filepath.Dir(apiServerURL))))
	}
}

func repositoryFile(t *testing.T, name string) []byte {
	t.Helper()
	return must1(os.ReadFile(filepath.Join(host.Repository(), filepath.FromSlash(name))))(t)
}

// must1 returns the value of a call and ends the test on its error.
func must1[T any](value T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		must(t, err)
		return value
	}
}
