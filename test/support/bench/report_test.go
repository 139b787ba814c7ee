// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func sample() Report {
	o := Full()
	return Report{
		Options: o,
		Machine: Machine{
			When: time.Date(2026, 11, 21, 16, 0, 0, 0, time.UTC), Kernel: "6.18.0", CPU: "A CPU", Cores: 2,
			Versions: []Version{{"HAProxy", "HAProxy version 2.6"}},
		},
		Rows: []Row{
			{Key: "haproxy", Proxy: "HAProxy", Connections: 64, Rate: 10000, Ratio: 1, P50: 3, P99: 8, P999: 12, Time: TimePerRequest{Proxy: 66}, Requests: 30000, Idle: 8.6, Half: 63.3, Open: 10000},
			{Key: "nginx", Proxy: "nginx", Connections: 64, Rate: 12000, Ratio: 1.2, P50: 2, P99: 10, P999: 11, Time: TimePerRequest{Proxy: 50}, Requests: 36000, Errors: 36, Idle: 4.5, Half: 50, Open: 9000},
			{Key: "http01-proxyd", Proxy: "http01-proxyd", Connections: 64, Rate: 13200, Ratio: 1.32, P50: 2, P99: 6, P999: 7, Time: TimePerRequest{Proxy: 33}, Requests: 39600, Idle: 7, Half: 60, Open: 10000},
			{Key: "dnat", Proxy: "kernel <DNAT>", Connections: 64, Rate: 14000, Ratio: 1.4, P50: 0.5, P99: 2, P999: 3, Unfiltered: true},
		},
		OtherLoad: OtherLoad{Median: 0.031, Most: 0.12},
		Costs:     []Cost{{Environment: "there", Pairs: 30, Without: 12345, With: 12300, Ratio: Interval{0.9990, 0.9970, 1.0010}}},
	}
}

func TestTables(t *testing.T) {
	r := sample()
	for name, c := range map[string]struct{ got, want string }{
		"proxies": {r.Table(), `
| proxy           | connections | requests/s | to HAProxy | p50 ms | p99 ms | p99.9 ms | CPU µs/request |      errors | Pss idle MiB | Pss with 10,000 open MiB |
| --------------- | ----------: | ---------: | ---------: | -----: | -----: | -------: | -------------: | ----------: | -----------: | -----------------------: |
| HAProxy         |          64 |     10,000 |       1.00 |   3.00 |   8.00 |    12.00 |           66.0 |           0 |          8.6 |                     63.3 |
| nginx ⚠         |          64 |     12,000 |       1.20 |   2.00 |  10.00 |    11.00 |           50.0 | 36 (0.10 %) |          4.5 |   50.0 (9,000 left open) |
| http01-proxyd   |          64 |     13,200 |       1.32 |   2.00 |   6.00 |     7.00 |           33.0 |           0 |          7.0 |                     60.0 |
| kernel <DNAT> ¹ |          64 |     14,000 |       1.40 |   0.50 |   2.00 |     3.00 |                |           0 |              |                          |
`},
		"API": {r.CostTable(), `
| where | pairs | connections/s without |   with |  ratio | 95 % interval | half-width | contains 1.00 |
| ----- | ----: | --------------------: | -----: | -----: | ------------: | ---------: | ------------: |
| there |    30 |                12,345 | 12,300 | 0.9990 | 0.9970–1.0010 |   ± 0.20 % |           yes |
`},
	} {
		if diff := cmp.Diff(strings.TrimPrefix(c.want, "\n"), c.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestTimeTable holds that the machine's times add up to all of it.
func TestTimeTable(t *testing.T) {
	r := Report{Rows: []Row{{
		Proxy: "nginx", Connections: 64,
		Time:  TimePerRequest{User: 30, System: 60, Softirq: 40, Idle: 9.5, Steal: 0.5, Proxy: 50, Client: 45, Upstream: 20},
		Calls: calls{allCalls: 9.3, "read": 4, "close": 1},
	}}}
	want := strings.TrimPrefix(`
| µs per request | connections | user | system | softirq | idle | steal |   all | proxy | client | upstream | system calls |
| -------------- | ----------: | ---: | -----: | ------: | ---: | ----: | ----: | ----: | -----: | -------: | -----------: |
| nginx          |          64 | 30.0 |   60.0 |    40.0 |  9.5 |   0.5 | 140.0 |  50.0 |   45.0 |     20.0 |          9.3 |
`, "\n")
	if diff := cmp.Diff(want, r.TimeTable()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if text := r.CallTable(); !strings.Contains(text, "| nginx | read 4.00, close 1.00, other 4.30 |          64 | 9.3 |") {
		t.Errorf("%s", text)
	}
}

// TestWrite holds that the chart is well-formed and that the text has no unresolved
// template values.
func TestWrite(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "docs")
	must(t, sample().Write(folder))
	text, err := os.ReadFile(filepath.Join(folder, reportFile))
	must(t, err)
	for _, part := range []string{"2 cores of A CPU, Linux 6.18.0", "HAProxy version 2.6", "(" + chartFile + ")", "10,000 connections", "2s a cell", "3 % of its time in the median, 12 % at most."} {
		if !strings.Contains(string(text), part) {
			t.Errorf("%q is not in the report:\n%s", part, text)
		}
	}
	if strings.Contains(string(text), "<no value>") {
		t.Errorf("a value is missing:\n%s", text)
	}
	chart, err := os.Open(filepath.Join(folder, chartFile))
	must(t, err)
	defer func() { _ = chart.Close() }()
	marks := map[string]int{}
	for d := xml.NewDecoder(chart); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		must(t, err)
		if begin, ok := token.(xml.StartElement); ok {
			marks[begin.Name.Local]++
		}
	}
	// Four proxies by three figures. The kernel's DNAT has no CPU figure.
	if marks["title"] != 11 || marks["circle"] != 4 {
		t.Errorf("the chart has %v", marks)
	}
}

func TestChartOfNothing(t *testing.T) {
	if text := (Report{}).Chart(); !strings.Contains(text, "</svg>") || strings.Contains(text, "NaN") {
		t.Errorf("got %s", text)
	}
}

func TestNumbers(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		if got := thousands(n); got != want {
			t.Errorf("%d is %s, want %s", n, got, want)
		}
	}
	for v, want := range map[float64]string{0.123: "0.12", 0.1: "0.1", 3: "3", 12.34: "12.3", 123.4: "123", 13456: "13.5k"} {
		if got := short(v); got != want {
			t.Errorf("%v is %s, want %s", v, got, want)
		}
	}
}

func TestCPUModel(t *testing.T) {
	if got := cpuModel("processor\t: 0\nmodel name\t: AMD EPYC: odd\n"); got != "AMD EPYC: odd" {
		t.Errorf("%q", got)
	}
	if got := cpuModel("processor\t: 0\n"); got != "" {
		t.Errorf("%q", got)
	}
}
