// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v4"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/cli"
	"github.com/http01-proxyd/http01-proxyd/pkg/controller/tracker"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// writeReport writes what a host's `status -o json` prints.
func writeReport(t *testing.T, dir, name string, look tracker.ReconcileResult, since time.Time) string {
	t.Helper()
	b := tracker.New("1.0", since, func(_, _ report.Condition) {})
	b.SetReconcileResult(look, since)
	var text strings.Builder
	must(t, report.WriteJSON(&text, b.Report(report.Table{}).Document(), true))
	path := filepath.Join(dir, "status-"+name+".json")
	must(t, os.WriteFile(path, []byte(text.String()), 0o600))
	return path
}

// TestCondition combines reports of the service, in every format, with the exit code,
// twice.
func TestCondition(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	since := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var vips []report.VIP
	must(t, json.Unmarshal([]byte(`[{"address": "192.0.2.5", "family": "IPv4", "state": "Held"}]`), &vips))
	standby := []report.VIP{{Address: vips[0].Address, Family: "IPv4", State: report.VIPStandby}}
	holder := writeReport(t, dir, "master0", tracker.ReconcileResult{Reason: report.Serving, Message: "holds 192.0.2.5", VIPs: vips}, since)
	other := writeReport(t, dir, "master1", tracker.ReconcileResult{Reason: report.Standby, Message: "not here", VIPs: standby}, since.Add(time.Hour))
	const message = "192.0.2.5 is held and served by master0; 2 hosts have reported"
	want := map[string]string{
		"apiVersion": "http01-proxyd.github.io/v1alpha1", "kind": "ClusterCondition",
		"type": "HTTP01ChallengeProxyReady", "status": "True", "reason": "Serving", "message": message, "lastTransitionTime": "2026-01-02T03:04:05Z",
	}
	for _, format := range []string{"json", "yaml"} {
		got := runLine(t, "", "condition", "-o", format, holder, other)
		var fields map[string]string
		must(t, yaml.Load([]byte(got.out), &fields))
		if diff := cmp.Diff(want, fields); got.code != cli.OK || got.err != "" || diff != "" {
			t.Errorf("%s: %+v (-want +got):\n%s", format, got, diff)
		}
		previous := filepath.Join(dir, "previous")
		must(t, os.WriteFile(previous, []byte(got.out), 0o600))
		later := writeReport(t, t.TempDir(), "master0", tracker.ReconcileResult{Reason: report.Serving, Message: "holds 192.0.2.5", VIPs: vips}, since.Add(2*time.Hour))
		if again := runLine(t, "", "condition", "-o", format, "--previous", previous, other, later); again != got {
			t.Errorf("%s, again: %+v, want %+v", format, again, got)
		}
	}
	// In the first run there is no previous condition, and no temporary file remains.
	if first := runLine(t, "", "condition", "-o", "text", "--previous", filepath.Join(dir, "absent"), "--expect", "master0,master1", holder, other); first.code != cli.OK || !strings.Contains(first.out, message) {
		t.Errorf("%+v", first)
	}
	if missing := runLine(t, "", "condition", "-o", "text", "--expect", "3", holder, other); missing.code != cli.Unknown || !strings.Contains(missing.out, "=Unknown (NotReachable)") || !strings.Contains(missing.out, ": another host: no report was given; 2 of 3 hosts have reported\n") {
		t.Errorf("%+v", missing)
	}
	for _, hosts := range []string{"1", "0", "master0,master2", "master0,master1,master1", "master0,,master1"} {
		if got := runLine(t, "", "condition", "--expect", hosts, holder, other); got.code != cli.Usage || got.out != "" {
			t.Errorf("--expect %s: %+v", hosts, got)
		}
	}
	shown := writeReport(t, t.TempDir(), "master0", tracker.ReconcileResult{Reason: report.PortInUse, Message: "a\nb\x1b[31m", VIPs: vips}, since)
	if got := runLine(t, "", "condition", "-o", "text", shown); !strings.Contains(got.out, "a b [31m") {
		t.Errorf("%+v", got)
	}
	text := runLine(t, "", "condition", "-o", "text", holder, other)
	if want := (outcome{cli.OK, "HTTP01ChallengeProxyReady=True (Serving) since 2026-01-02T03:04:05Z: " + message + "\n", ""}); text != want {
		t.Errorf("%+v", text)
	}
	none := runLine(t, "", "condition", "-o", "text", other)
	if want := (outcome{cli.Unhealthy, "HTTP01ChallengeProxyReady=False (VIPNotHeld) since 2026-01-02T04:04:05Z: no host holds 192.0.2.5: check keepalived on master1; 1 host has reported\n", ""}); none != want {
		t.Errorf("%+v", none)
	}
}

// TestConditionHTTP01Proxy: the status of an HTTP01Proxy in every format, twice. A
// previous condition of the other kind is rejected.
func TestConditionHTTP01Proxy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	since := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var vips []report.VIP
	must(t, json.Unmarshal([]byte(`[{"address": "192.0.2.5", "family": "IPv4", "state": "Held"}]`), &vips))
	standby := []report.VIP{{Address: vips[0].Address, Family: "IPv4", State: report.VIPStandby}}
	holder := writeReport(t, dir, "master0", tracker.ReconcileResult{Reason: report.Serving, Message: "holds 192.0.2.5", VIPs: vips}, since)
	failing := writeReport(t, dir, "master1", tracker.ReconcileResult{Reason: report.PortInUse, Message: "port 8888 is in use", VIPs: standby}, since.Add(time.Hour))
	const ready = "192.0.2.5 is held and served by master0; master1 is not ready (PortInUse): port 8888 is in use; 2 hosts have reported"
	const degraded = "master1: port 8888 is in use; 2 hosts have reported"
	want := map[string]any{
		"apiVersion": "operator.openshift.io/v1alpha1", "kind": "HTTP01Proxy", "metadata": map[string]any{"name": "cluster"},
		"status": map[string]any{"conditions": []any{
			map[string]any{"type": "Ready", "status": "True", "reason": "Serving", "message": ready, "lastTransitionTime": "2026-01-02T03:04:05Z"},
			map[string]any{"type": "Degraded", "status": "True", "reason": "PortInUse", "message": degraded, "lastTransitionTime": "2026-01-02T04:04:05Z"},
		}},
	}
	for _, format := range []string{"json", "yaml"} {
		args := []string{"condition", "--kind", "HTTP01Proxy", "-o", format, "--max-age", "0"}
		got := runLine(t, "", append(args, holder, failing)...)
		var document map[string]any
		must(t, yaml.Load([]byte(strings.ReplaceAll(strings.ReplaceAll(got.out, "Time: 2026", "Time: !!str 2026"), "!!str \"", "\"")), &document))
		if diff := cmp.Diff(want, document); got.code != cli.OK || got.err != "" || diff != "" {
			t.Errorf("%s: %+v (-want +got):\n%s", format, got, diff)
		}
		previous := filepath.Join(dir, "previous."+format)
		must(t, os.WriteFile(previous, []byte(got.out), 0o600))
		later := writeReport(t, t.TempDir(), "master1", tracker.ReconcileResult{Reason: report.PortInUse, Message: "port 8888 is in use", VIPs: standby}, since.Add(2*time.Hour))
		if again := runLine(t, "", append(args, "--previous", previous, holder, later)...); again != got {
			t.Errorf("%s, again: %+v, want %+v", format, again, got)
		}
		other := runLine(t, "", "condition", "--previous", previous, holder, failing)
		if want := "oc http01 condition: " + previous + ": not a condition"; other.code != cli.Failure || other.out != "" || !strings.HasPrefix(other.err, want) {
			t.Errorf("%s, as the other kind: %+v", format, other)
		}
	}
	condition := filepath.Join(dir, "condition.json")
	must(t, os.WriteFile(condition, []byte(runLine(t, "", "condition", holder).out), 0o600))
	if got := runLine(t, "", "condition", "--kind", "HTTP01Proxy", "--previous", condition, holder); got.code != cli.Failure || got.out != "" || !strings.HasPrefix(got.err, "oc http01 condition: "+condition+": not a condition") {
		t.Errorf("a previous ClusterCondition: %+v", got)
	}
	text := runLine(t, "", "condition", "--kind", "HTTP01Proxy", "-o", "text", holder, failing)
	if want := (outcome{cli.OK, "Ready=True (Serving) since 2026-01-02T03:04:05Z: " + ready + "\nDegraded=True (PortInUse) since 2026-01-02T04:04:05Z: " + degraded + "\n", ""}); text != want {
		t.Errorf("%+v", text)
	}
	if none := runLine(t, "", "condition", "--kind", "HTTP01Proxy", failing); none.code != cli.Unhealthy {
		t.Errorf("%+v", none)
	}
}

// TestUnreadableReports: a host with an unreadable report has not answered since the
// time of the file.
func TestUnreadableReports(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "status-master0.json")
	when := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	const remediation = `: give a file with the output of "http01-proxyd status -o json" on the host`
	for name, tt := range map[string]struct {
		write func() error
		want  string
	}{
		"absent":   {func() error { return nil }, "cannot read the report: stat " + path + ": no such file or directory" + remediation},
		"a folder": {func() error { return os.Mkdir(path, 0o700) }, "cannot read the report: " + path + " is not a regular file" + remediation},
		"empty":    {func() error { return os.WriteFile(path, nil, 0o600) }, path + ": the report is empty: the service has not answered"},
		"a text":   {func() error { return os.WriteFile(path, []byte("Serving: holds 192.0.2.5\n"), 0o600) }, path + ": not a report of the service: invalid character 'S' looking for beginning of value: give the output of \"http01-proxyd status -o json\""},
		"too long": {func() error { return os.WriteFile(path, make([]byte, maxReport+1), 0o600) }, fmt.Sprintf("cannot read the report: %s is longer than %d bytes%s", path, maxReport, remediation)},
	} {
		must(t, os.RemoveAll(path))
		must(t, tt.write())
		err := os.Chtimes(path, when, when)
		got := runLine(t, "", "condition", path)
		var c report.Condition
		must(t, json.Unmarshal([]byte(got.out), &c))
		if want := "master0: " + tt.want + "; 0 of 1 hosts have reported"; got.code != cli.Unknown || c.Status != "Unknown" || c.Reason != report.NotReachable || c.Message != want {
			t.Errorf("%s: %+v, want %s", name, got, want)
		}
		if err == nil && !c.LastTransitionTime.Equal(when) {
			t.Errorf("%s: since %v", name, c.LastTransitionTime)
		}
	}
}

// TestFileNamedAsHost: the name of a file that is named like its host appears once.
func TestFileNamedAsHost(t *testing.T) {
	t.Chdir(t.TempDir())
	must(t, os.WriteFile("t.txt", []byte("Serving\n"), 0o600))
	got := runLine(t, "", "condition", "-o", "text", "t.txt")
	if want := ": t.txt: not a report of the service: "; got.code != cli.Unknown || !strings.Contains(got.out, want) || strings.Count(got.out, "t.txt") != 1 {
		t.Errorf("%+v", got)
	}
}
