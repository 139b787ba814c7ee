// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// round is a cell of one second.
func round(requests int, p99, cpu time.Duration) cell {
	return cell{
		load:  load{requests: requests, elapsed: time.Second, p99: p99},
		usage: cpuUsage{proxy: cpu * time.Duration(requests)},
	}
}

// TestGoals compares with the better of two: nginx in requests, HAProxy in p99. In one
// round the machine was slow: its ratio counts like those of the others.
func TestGoals(t *testing.T) {
	const us = time.Microsecond
	seen := map[string]cells{
		"haproxy": {64: {round(10000, 8*time.Millisecond, 40*us), round(5000, 16*time.Millisecond, 80*us), round(10000, 8*time.Millisecond, 40*us)}},
		"nginx":   {64: {round(12000, 10*time.Millisecond, 60*us), round(6000, 20*time.Millisecond, 90*us), round(12000, 10*time.Millisecond, 60*us)}},
		serviceKey: {
			1:  {round(5000, time.Millisecond, 70*us)}, // no peer was measured here
			64: {round(13200, 6*time.Millisecond, 30*us), round(3000, 12*time.Millisecond, 60*us), round(13200, 6*time.Millisecond, 30*us)},
		},
		serviceKey + "-nginx": {64: {round(12000, 6*time.Millisecond, 30*us)}},
		serviceKey + "-tls":   {64: {round(9000, 6*time.Millisecond, 30*us)}},
	}
	o := Full()
	r := Report{
		Options: o,
		Goals:   goals(o, seen, map[string]memory{serviceKey: {idle: 14 << 20, half: 61 << 20}}),
		Costs:   []Cost{{Environment: "there", Ratio: Interval{0.9990, 0.9970, 1.0010}}},
	}
	var got [][]string
	for line := range strings.Lines(r.GoalTable()) {
		var row []string
		for cell := range strings.SplitSeq(strings.Trim(line, "|\n "), "|") {
			row = append(row, strings.TrimSpace(cell))
		}
		got = append(got, row)
	}
	want := [][]string{
		{"requests/s relative to the better of HAProxy and nginx, 64 connections", "≥ 1", "1.10 (nginx)", "yes"},
		{"p99 relative to the better of HAProxy and nginx, 64 connections", "≤ 1", "0.75 (HAProxy)", "yes"},
		{"CPU per request relative to the better of HAProxy and nginx, 64 connections", "≤ 1", "0.75 (HAProxy)", "yes"},
		{"requests/s with TLS to the upstream relative to without, 64 connections", "≥ 0.8", "0.75", "no"},
		{"Pss idle", "≤ 15 MiB", "14.0 MiB", "yes"},
		{"Pss with 10,000 connections that sent half a request head", "≤ 60 MiB", "61.0 MiB", "no"},
		{"connections/s to the API's port with our table, there", "contains 1.00", "0.9970–1.0010", "yes"},
	}
	if len(got) < 2 {
		t.Fatalf("no table: %q", got)
	}
	if diff := cmp.Diff(want, got[2:]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRateLimit(t *testing.T) {
	r := Report{Rows: []Row{
		{Key: serviceKey, Connections: 64, Time: TimePerRequest{User: 15, System: 55, Softirq: 36, Idle: 4, Proxy: 40, Client: 45, Upstream: 10}},
		{Key: "poc", Connections: 64, Time: TimePerRequest{User: 120, System: 130, Softirq: 60, Idle: 30, Proxy: 200, Client: 50, Upstream: 30}},
	}}
	for _, part := range []string{"takes 340 µs of", "must take 85 µs", "takes 110 µs: 55 µs for client", "40 µs for http01-proxyd. The other 15 µs", "uses 5.0 times"} {
		if text := r.RateLimit(); !strings.Contains(text, part) {
			t.Errorf("%q is not in %q", part, text)
		}
	}
	if text := (Report{Rows: r.Rows[:1]}).RateLimit(); text != "" {
		t.Errorf("without the proof of concept: %q", text)
	}
}

func TestCompareVersions(t *testing.T) {
	const us = time.Microsecond
	seen := map[string]cells{
		serviceKey:             {64: {round(11000, time.Millisecond, 40*us), round(5500, 2*time.Millisecond, 80*us)}},
		serviceKey + "-before": {64: {round(10000, 2*time.Millisecond, 50*us), round(5000, 4*time.Millisecond, 100*us)}},
	}
	got, err := compareVersions(Options{Connections: []int{1, 64}}, seen)
	must(t, err)
	if len(got) != 1 || got[0].Connections != 64 || got[0].Rounds != 2 {
		t.Fatalf("%+v", got)
	}
	for name, c := range map[string]struct {
		got  Interval
		want float64
	}{"requests/s": {got[0].Rate, 1.1}, "p99": {got[0].P99, 0.5}, "CPU": {got[0].CPU, 0.8}} {
		if math.Abs(c.got.Mean-c.want) > 1e-9 || !c.got.Contains(c.got.Mean) {
			t.Errorf("%s: %+v, want %v", name, c.got, c.want)
		}
	}
	delete(seen, serviceKey+"-before")
	if got, err := compareVersions(Options{Connections: []int{64}}, seen); err != nil || len(got) > 0 {
		t.Errorf("without an earlier service: %+v, %v", got, err)
	}
}
