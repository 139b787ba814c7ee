// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// recordedFile has the series of three control-plane hosts: the exporter of each, and node_exporter.
// TestMonitoring of test/support/cluster writes it if RECORD_METRICS names it.
const recordedFile = "testdata/recorded.txt"

// readRecord returns the recorded series in the format of OpenMetrics, and the time of the last sample.
func readRecord(t *testing.T) (openMetrics string, end int64) {
	t.Helper()
	text, err := os.ReadFile(recordedFile)
	must(t, err)
	head, series, _ := strings.Cut(string(text), "\n")
	var begin, step int64
	_, err = fmt.Sscan(head, &begin, &step)
	must(t, err)
	var out strings.Builder
	for line := range strings.Lines(series) {
		i := strings.LastIndex(line, "} ")
		for n, value := range strings.Fields(line[i+1:]) {
			if at := begin + int64(n)*step; value != "_" {
				fmt.Fprintln(&out, line[:i+1], value, at)
				end = max(end, at)
			}
		}
	}
	return out.String() + "# EOF\n", end
}

// startPrometheus runs Debian's Prometheus with the recorded series, and returns its address.
func startPrometheus(t *testing.T, openMetrics string) string {
	t.Helper()
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "recorded.om"), []byte(openMetrics), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte("scrape_configs: []\n"), 0o600))
	promtool(t, dir, "tsdb", "create-blocks-from", "openmetrics", "recorded.om", "data")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, "prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=data",
		"--storage.tsdb.retention.time=100y", "--web.listen-address=127.0.0.1:0")
	cmd.Dir = dir
	stderr, err := cmd.StderrPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Wait() }) // the end of the context kills it
	listening := regexp.MustCompile(`Listening on"? address=(127\.0\.0\.1:\d+)`)
	address, log, ready := "", "", false // in either order
	for lines := bufio.NewScanner(stderr); lines.Scan(); log += lines.Text() + "\n" {
		if m := listening.FindStringSubmatch(lines.Text()); m != nil {
			address = m[1]
		}
		ready = ready || strings.Contains(lines.Text(), "Server is ready")
		if ready && address != "" {
			go func() { _, _ = io.Copy(io.Discard, stderr) }()
			return address
		}
	}
	t.Fatalf("Prometheus has ended:\n%s", log)
	return ""
}

// evaluate returns the result of a query at a time: a line for each series. It fails without a series, or
// if a value is no number.
func evaluate(ctx context.Context, address, expr string, at int64) (lines []string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/api/v1/query?"+
		url.Values{"query": {expr}, "time": {strconv.FormatInt(at, 10)}}.Encode(), nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	var body struct {
		Error string
		Data  struct {
			Result []struct {
				Metric map[string]string
				Value  []any
			}
		}
	}
	if err := json.NewDecoder(response.Body).Decode(&body); err != nil {
		return nil, err
	}
	if body.Error != "" {
		return nil, fmt.Errorf("%s: %s", expr, body.Error)
	}
	if len(body.Data.Result) == 0 {
		return nil, fmt.Errorf("%s returns no series", expr)
	}
	for _, r := range body.Data.Result {
		value, _ := r.Value[1].(string)
		if _, err := strconv.ParseFloat(value, 64); err != nil || value == "NaN" {
			return nil, fmt.Errorf("%s returns %q for %v", expr, value, r.Metric)
		}
		lines = append(lines, fmt.Sprint(value, " ", r.Metric))
	}
	return lines, nil
}

// TestQueriesOnRecord: each query of the dashboard returns numbers from the record of a real run.
func TestQueriesOnRecord(t *testing.T) {
	text, end := readRecord(t)
	address := startPrometheus(t, text)
	results := map[string]string{}
	for _, p := range readDashboard(t).Panels {
		for _, q := range p.Targets {
			lines, err := evaluate(t.Context(), address, q.Expr, end)
			if err != nil {
				t.Errorf("%s: %v", p.Title, err)
				continue
			}
			results[p.Title] = lines[0]
			t.Logf("%s: %s\n\t%s", p.Title, q.Expr, strings.Join(lines, "\n\t"))
		}
	}
	for title, want := range map[string]string{
		"Ready control-plane nodes": "3 map[]", "API VIPs held by a node": "2 map[]", "Table repairs": "0 map[]",
		"Failed attempts to renew it": "0 map[]", "Challenge requests answered": "8 map[]",
		"Challenge requests failed": "1 map[]",
	} {
		if results[title] != want {
			t.Errorf("%s: %q, want %q", title, results[title], want)
		}
	}
	for _, expr := range []string{"sum(http01_proxy_no_such_metric)", "0 * (http01_proxy_up / 0)"} {
		if lines, err := evaluate(t.Context(), address, expr, end); err == nil {
			t.Errorf("%s returns %v, and is not found", expr, lines)
		}
	}
}
