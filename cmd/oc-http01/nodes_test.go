// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/cli"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// installOC puts an oc into PATH that lists the nodes with an output, and prints it. It knows no other kind of objects
// without a file.
func installOC(t *testing.T, outputs map[string]string) {
	t.Helper()
	dir := t.TempDir()
	var items []string
	for name, output := range outputs {
		items = append(items, fmt.Sprintf(`{"metadata": {"name": %q}}`, name))
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(output), 0o600))
	}
	must(t, os.WriteFile(filepath.Join(dir, "nodes"), []byte(`{"kind": "List", "items": [`+strings.Join(items, ",")+"]}"),
		0o600))
	const script = `#!/bin/sh
case "$1 $2 $3" in
"get nodes "*) exec cat "${0%/*}/nodes" ;;
"get "*)
	[ -e "${0%/*}/${2%%[.,]*}" ] || echo "error: the server doesn't have a resource type \"${2%%[.,]*}\"" >&2
	exec cat "${0%/*}/${2%%[.,]*}" ;;
"debug --quiet node/"*)
	echo "$*" >> "${0%/*}/calls"
	case "$*" in *" trace -o "*) exec cat "${0%/*}/${3#node/}-trace" ;; esac
	exec cat "${0%/*}/${3#node/}" ;;
esac
exit 1
`
	must(t, os.WriteFile(filepath.Join(dir, "oc"), []byte(script), 0o700))
	t.Setenv("PATH", dir+":/usr/bin:/bin")
}

// statusOf is the status of a host with a VIP in a state.
func statusOf(reason, vip string) string {
	status := "True"
	switch reason {
	case "PortInUse":
		status = "False"
	case "NotRunning":
		status = "Unknown"
	}
	return fmt.Sprintf(
		`{"apiVersion": "http01-proxyd.github.io/v1alpha1", "kind": "Status", "version": "v1.2.3", "conditions": [
{"type": "HTTP01ChallengeProxyReady", "status": %q, "reason": %q, "message": "it is \u001b[31m%s", "lastTransitionTime": "2026-01-02T03:04:05Z"}],
"vips": [{"address": "192.0.2.5", "family": "IPv4", "state": %q, "since": "2026-01-02T03:04:05Z"}]}`, status, reason, reason, vip)
}

// TestStatus: one table for the cluster, and the exit codes.
func TestStatus(t *testing.T) {
	serving, standby := statusOf("Serving", "Held"), statusOf("Standby", "Standby")
	for name, tt := range map[string]struct {
		outputs      map[string]string
		code, health int      // without and with --exit-code
		want         []string // pieces of the text, in this order
	}{
		"ready": {
			map[string]string{"master0": serving, "master1": standby},
			cli.OK, cli.OK,
			[]string{
				"State:          ✓ Serving for ",
				"192.0.2.5 is held and served by master0; 2 hosts have reported\n",
				"\nAPI VIP    HELD BY  FOR\n192.0.2.5  master0  ", "\nNODE     STATE      FOR", "\nmaster0  ✓ Serving  ",
				"192.0.2.5  v1.2.3\nmaster1  ✓ Standby  ", "-          v1.2.3\n",
			},
		},
		"not held": {
			map[string]string{"master0": standby, "master1": standby},
			cli.OK, cli.Unhealthy,
			[]string{
				"✗ VIPNotHeld", "\n192.0.2.5  no node  ", "\nmaster0  ✗ Standby  ",
				"\nProblem:        ✗ [vip-unassigned] no host holds 192.0.2.5 (master0, master1)\n  oc debug node/master0 -- chroot /host sh -c ",
			},
		},

		"one is down": {
			map[string]string{"master0": serving, "master1": ""},
			cli.Unknown, cli.Unknown,
			[]string{
				"! NotReachable\n", "\nmaster1  ! NotReachable  -",
				"! [node-not-reporting] master1: no JSON document\n  oc get node master1\n",
			},
		},
		"one is down, one is not ready": {
			map[string]string{"master0": statusOf("PortInUse", "Held"), "master1": ""},
			cli.Unknown, cli.Unhealthy,
			[]string{"✗ PortInUse", "[service-not-ready]", "\n  oc http01 check\n", "[node-not-reporting]"},
		},
		"one is stopped": {
			map[string]string{
				"master0": statusOf("NotRunning", "Held"), "master1": standby,
			},
			cli.Unknown, cli.Unknown,
			[]string{
				"State:          ✗ NotRunning\n", "\nmaster0  ✗ NotRunning  -",
				"✗ [service-not-running] master0: the service is not running\n  oc debug node/master0 -- chroot /host " +
					"systemctl enable --now http01-proxyd\n",
			},
		},
		"an expired certificate": {
			map[string]string{
				"master0": strings.Replace(serving, `"vips"`, `"certificates": [{"address": "192.0.2.5:6443", "name": "api.test",
					"notBefore": "2025-01-01T00:00:00Z", "notAfter": "2025-03-01T00:00:00Z"}], "vips"`, 1),
				"master1": standby,
			},
			cli.OK, cli.OK,
			[]string{
				"State:          ✗ Serving, with 1 problem, for ", "\nmaster0  ✗ Serving", "\nmaster1  ✓ Standby",
				"✗ [certificate-expired] ", "expired on 2025-03-01T00:00:00Z (master0)\n  oc get certificate,certificaterequest,order,challenge -A\n",
			},
		},
		"an earlier version": {
			map[string]string{
				"master0": strings.Replace(serving,
					`"apiVersion": "http01-proxyd.github.io/v1alpha1", "kind": "Status", "version": "v1.2.3", `, "", 1),
				"master1": standby,
			},
			cli.OK, cli.OK,
			[]string{
				"State:          ! Serving, with 1 warning, for ", "\nmaster0  ! Serving  ", "192.0.2.5  -\n",
				"Warning:        ! [versions-differ] the versions differ: none on master0, v1.2.3 on master1\n",
			},
		},
		"garbage": {
			map[string]string{
				"master0": serving, "master1": "\x1b[2J{\"a\":\n", "master2": `{"kind": "Check"}`,
				"master3": `{"kind": "Error", "message": "cannot connect to the service"}`,
			},
			cli.Unknown, cli.Unknown,
			[]string{
				`! [node-not-reporting] master1: no JSON document: [2J{"a":`,
				`! [node-not-reporting] master2: not a Status, but of the kind "Check"`,
				"! [node-not-reporting] master3: cannot connect to the service\n  oc get node master3\n",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			installOC(t, tt.outputs)
			got := runLine(t, "", "status")
			if got.code != tt.code || got.err != "" || !inOrder(got.out, strings.Join(tt.want, "*")) ||
				strings.Contains(got.out, "\x1b") {
				t.Errorf("exit code %d, want %d: %s\n%s\nwant %q", got.code, tt.code, got.err, got.out, tt.want)
			}
			health := runLine(t, "", "status", "--exit-code", "-o", "json")
			var s report.ClusterStatus
			must(t, json.Unmarshal([]byte(health.out), &s))
			if health.code != tt.health || s.Kind != "ClusterStatus" || len(s.Nodes) != len(tt.outputs) {
				t.Errorf("exit code %d, want %d: %+v", health.code, tt.health, s)
			}
		})
	}
}

// TestStatusWide: the messages of the nodes.
func TestStatusWide(t *testing.T) {
	installOC(t, map[string]string{"master0": statusOf("Serving", "Held")})
	got := runLine(t, "", "status", "-o", "wide", "--color", "always")
	if !inOrder(got.out, "MESSAGE*master0*\x1b[32m✓ Serving\x1b[0m*it is  [31mServing\n") {
		t.Errorf("%q", got.out)
	}
}

// TestStatusWatch: rounds follow each other until the end of the context. One that fails shows the last status.
func TestStatusWatch(t *testing.T) {
	installOC(t, map[string]string{"master0": statusOf("Serving", "Held"), "master1": statusOf("Standby", "Standby")})
	dir, _, _ := strings.Cut(os.Getenv("PATH"), ":")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w := &watched{func(text string) {
		switch {
		case strings.Contains(text, "Query:"):
			cancel()
		case strings.Count(text, "State:") == 1 && strings.HasSuffix(text, "\n\n"): // before the second status
			must(t, os.Rename(filepath.Join(dir, "nodes"), filepath.Join(dir, "gone")))
		}
	}, nil}
	f := nodeFlags{timeout: time.Minute, out: cli.Output{Format: cli.Text}}
	err := f.watch(ctx, w, io.Discard, time.Millisecond)
	if err != nil || !inOrder(string(w.text), "State:          ✓ Serving*master1  ✓ Standby*\n\nQuery:          ✗ failed at *"+
		"cannot list the nodes: *State:          ✓ Serving*master1") {
		t.Errorf("%v\n%s", err, w.text)
	}
	for line, want := range map[string]string{
		"status --interval 20s":           "--interval requires --watch",
		"status --watch --interval 1s":    "use 10s to 1h",
		"status --watch -o html":          "-o html cannot be used with --watch",
		"status --watch --exit-code":      "exit-code watch",
		"status --watch --nodes MASTER/0": "is not the name of a node",
	} {
		if got := runLine(t, "", strings.Fields(line)...); got.code != cli.Usage || !strings.Contains(got.err, want) {
			t.Errorf("%s: %+v", line, got)
		}
	}
}

// watched is an output that calls a function after each write.
type watched struct {
	written func(string)
	text    []byte
}

func (w *watched) Write(p []byte) (int, error) {
	w.text = append(w.text, p...)
	w.written(string(w.text))
	return len(p), nil
}

// TestStatusPage: a page with the cluster, and with the whole report of each node.
func TestStatusPage(t *testing.T) {
	broken := strings.Replace(statusOf("Serving", "Held"), `"vips"`, `"certificates": 1, "vips"`, 1)
	installOC(t, map[string]string{
		"master1": statusOf("Standby", "Standby"), "master0": statusOf("Serving", "Held"),
		"master2": "", "master3": broken,
	})
	got := runLine(t, "", "status", "-o", "html")
	if got.code != cli.Unknown || got.err != "" || strings.Contains(got.out, "\x1b") ||
		!inOrder(got.out, strings.Join([]string{
			"<!DOCTYPE html>", "Cluster with 4 control-plane nodes", "node-not-reporting", "Holders of the API VIPs",
			"192.0.2.5", "master0",
			`<h2 class="host-name">master0</h2>`, "it is  [31mServing", `<h2 class="host-name">master1</h2>`, "Standby",
			`<h2 class="host-name">master2</h2>`, "no JSON document", `<h2 class="host-name">master3</h2>`,
			"json: cannot unmarshal number into ",
		}, "*")) {
		t.Errorf("exit code %d: %s\n%s", got.code, got.err, got.out)
	}
}

const (
	checkedProblem = `{"host": "h", "outcome": "problem", "summary": "1 problem on h.", "checks": [{"name": "dns", "outcome": "problem",
"findings": [{"id": "dns-no-record", "level": "problem", "message": "No server\u001b has a record", "remediation": "Add one."}]},
{"name": "clock", "outcome": "skipped", "text": "no server"}]}`
	checkedOK = `{"apiVersion": "http01-proxyd.github.io/v1alpha1", "kind": "Check", "host": "h", "outcome": "ok", "summary": "No problems on h.", "checks": []}`
)

// TestCheck: the findings of all nodes, and the exit codes.
func TestCheck(t *testing.T) {
	for name, tt := range map[string]struct {
		outputs map[string]string
		code    int
		want    []string
	}{
		"a problem": {
			map[string]string{"master0": checkedProblem, "master1": checkedProblem, "master2": checkedOK},
			cli.Unhealthy,
			[]string{
				"Result:         ✗ 1 problem (3 of 3 nodes reported).\n",
				"\nNODE     RESULT     SUMMARY\nmaster0  ✗ problem  1 problem on h.\n", "\nmaster2  ✓ ok       No problems on h.\n",
				"\nProblem:        ✗ [dns-no-record] No server  has a record (master0, master1)\nFix:          " +
					"  Add one.\n", "\nNot checked:    - master0: clock: no server\n",
			},
		},
		"no problem": {
			map[string]string{"master0": checkedOK},
			cli.OK,
			[]string{
				"Result:         ✓ No problem was found (1 of 1 node reported).\n",
				"\nmaster0  ✓ ok    No problems on h.\n",
			},
		},
		"garbage": {
			map[string]string{"master0": checkedOK, "master1": `{"outcome": "fine"}`},
			cli.Unknown,
			[]string{
				"Result:         ! No problem was found, but not everything was checked (1 of 2 nodes reported).\n",
				"\nmaster1  ! no report  not a result of check: its outcome is \"fine\"\n",
				"Warning:        ! [node-not-reporting] ",
				"Run the command by hand: oc debug node/master1 -- chroot /host http01-proxyd check\n",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			installOC(t, tt.outputs)
			got := runLine(t, "", "check")
			if got.code != tt.code || got.err != "" || !inOrder(got.out, strings.Join(tt.want, "*")) ||
				strings.Contains(got.out, "\x1b") {
				t.Errorf("exit code %d, want %d: %s\n%s\nwant %q", got.code, tt.code, got.err, got.out, tt.want)
			}
			shown := runLine(t, "", "check", "-o", "html")
			if shown.code != tt.code || !inOrder(shown.out, "<!DOCTYPE html>*http01-proxyd cluster check*reported)*master0") {
				t.Errorf("exit code %d, want %d:\n%s", shown.code, tt.code, shown.out)
			}
			document := runLine(t, "", "check", "-o", "json")
			var c report.ClusterCheck
			must(t, json.Unmarshal([]byte(document.out), &c))
			if document.code != tt.code || c.Kind != "ClusterCheck" || len(c.Nodes) != len(tt.outputs) {
				t.Errorf("exit code %d, want %d: %+v", document.code, tt.code, c)
			}
		})
	}
}

// TestCheckWide: the result of each check on each node.
func TestCheckWide(t *testing.T) {
	other := strings.Replace(checkedOK, `"checks": []`, `"checks": [{"name": "vips", "outcome": "ok"}, {"name": "dns", "outcome": "ok"}]`, 1)
	installOC(t, map[string]string{"master0": checkedProblem, "master1": other, "master2": ""})
	got := runLine(t, "", "check", "-o", "wide")
	want := "\nCHECK  master0    master1*\ndns    ✗ problem  ✓ ok*\nclock  - skipped*\nvips  *✓ ok\n"
	if got.code != cli.Unhealthy || !inOrder(got.out, want) {
		t.Errorf("exit code %d, want the table%s\n%s%s", got.code, want, got.out, got.err)
	}
}

// TestCheckFlags: the command on the nodes has the flags that select checks.
func TestCheckFlags(t *testing.T) {
	installOC(t, map[string]string{"master0": checkedOK})
	if got := runLine(t, "", "check", "--only", "dns,clock", "--token", "x", "--name", "api.test"); got.code != cli.OK ||
		got.err != "" {
		t.Fatalf("%+v", got)
	}
	dir, _, _ := strings.Cut(os.Getenv("PATH"), ":")
	calls := must1(os.ReadFile(filepath.Join(dir, "calls")))(t)
	if want := " http01-proxyd check -o json --name=api.test --token=x --only=dns,clock --coordinated=2m0s\n"; !strings.HasSuffix(string(calls), want) {
		t.Errorf("oc was called with %q, want the end %q", calls, want)
	}
}

const (
	tracedDrop = `{"apiVersion": "http01-proxyd.github.io/v1alpha1", "kind": "Trace", "host": "other", "vips": ["192.0.2.5"], "durationMs": 1000, "packets": [
{"client": "203.0.113.9:40000", "vip": "192.0.2.5:80", "flags": "SYN\u001b", "end": "dropped", "message": "dropped by the policy", "fix": "nft insert rule inet filter input tcp dport 8888 accept",
"steps": [{"device": "eth0", "family": "inet", "table": "filter", "chain": "input", "hook": "input", "verdict": "drop", "port": 8888}]}]}`
	tracedNothing = `{"kind": "Trace", "vips": ["192.0.2.5"], "packets": [], "message": "nothing arrived from outside"}`
)

// TestTrace: the trace of the nodes that hold a VIP, and the exit codes.
func TestTrace(t *testing.T) {
	serving, standby := statusOf("Serving", "Held"), statusOf("Standby", "Standby")
	passed := strings.Replace(tracedDrop, `"end": "dropped"`,
		`"end": "delivered", "translatedTo": 8888, "redirected": true`, 1)
	for name, tt := range map[string]struct {
		status, traces map[string]string
		code           int
		want           []string
	}{
		"dropped": {
			map[string]string{"master0": serving, "master1": standby, "master2": ""},
			map[string]string{"master0": tracedDrop},
			cli.Unhealthy,
			[]string{
				"Trace:          port 80 of 192.0.2.5 on master0, 1.0 s\n", "SYN  to 192.0.2.5:80\n",
				"Input:          inet filter input  drop\n",
				"End:            ✗ dropped by the policy\n",
				"Fix:            oc debug node/master0 -- chroot /host nft insert rule inet filter input tcp dport 8888 accept\n",
				"Trace:          ✗ none on master2: no JSON document\n",
			},
		},
		"passed": {
			map[string]string{"master0": serving},
			map[string]string{"master0": passed},
			cli.OK,
			[]string{"✓ no packet was dropped, lost or not redirected (1 traced)"},
		},
		"nothing": {
			map[string]string{"master0": serving},
			map[string]string{"master0": tracedNothing},
			cli.Unknown,
			[]string{"Result:         ! nothing arrived from outside\n"},
		},
		"two holders, one of an earlier version": {
			map[string]string{"master0": serving, "master1": serving},
			map[string]string{"master0": passed, "master1": `{"kind": "Error", "message": "unknown command"}`},
			cli.Unknown,
			[]string{
				"on master0,",
				"\n\nTrace:          ✗ none on master1: unknown command\nFix:            Run the command by hand: oc debug " +
					"node/master1 -- chroot /host http01-proxyd trace\n",
			},
		},
		"garbage": {
			map[string]string{"master0": serving},
			map[string]string{"master0": `{"kind": "Trace", "packets": 1}`},
			cli.Unknown,
			[]string{"✗ none on master0: json: "},
		},
	} {
		t.Run(name, func(t *testing.T) {
			installOC(t, tt.status)
			dir, _, _ := strings.Cut(os.Getenv("PATH"), ":")
			for node, text := range tt.traces {
				must(t, os.WriteFile(filepath.Join(dir, node+"-trace"), []byte(text), 0o600))
			}
			got := runLine(t, "", "trace", "--count", "2", "--from", "203.0.113.9")
			if got.code != tt.code || got.err != "" || !inOrder(got.out, strings.Join(tt.want, "*")) ||
				strings.Contains(got.out, "\x1b") {
				t.Errorf("exit code %d, want %d: %s\n%s\nwant %q", got.code, tt.code, got.err, got.out, tt.want)
			}
			calls := string(must1(os.ReadFile(filepath.Join(dir, "calls")))(t))
			if n := strings.Count(calls,
				" http01-proxyd trace -o json --count=2 --from=203.0.113.9 --duration=30s\n"); n != len(tt.traces) {
				t.Errorf("%d calls of trace:\n%s", n, calls)
			}
			silent := 0 // nodes without a status
			for _, status := range tt.status {
				if status == "" {
					silent++
				}
			}
			var c report.ClusterTrace
			document := runLine(t, "", "trace", "-o", "json")
			must(t, json.Unmarshal([]byte(document.out), &c))
			if document.code != tt.code || c.Kind != "ClusterTrace" || len(c.Nodes) != len(tt.traces)+silent {
				t.Errorf("exit code %d, want %d: %+v", document.code, tt.code, c)
			}
		})
	}
	installOC(t, map[string]string{"master0": standby})
	if got := runLine(t, "", "trace"); got.code != cli.Failure ||
		!strings.Contains(got.err, "no node reports that it holds an API VIP: run oc http01 status") {
		t.Errorf("%+v", got)
	}
	for _, flags := range [][]string{{"--count", "0"}, {"--duration", "11m"}, {"--from", "fe80::1%eth0"}} {
		if got := runLine(t, "", append([]string{"trace"}, flags...)...); got.code != cli.Usage {
			t.Errorf("%q: %+v", flags, got)
		}
	}
}

// TestManyValues: a document with too many values is shown up to the limit, with a note in
// place of the rest. One with too many bytes is not shown, and other nodes are.
// TestHostileNodes (test/suites/hostile) measures the memory that such documents take.
func TestManyValues(t *testing.T) {
	serving := statusOf("Serving", "Held")
	many := func(n int) string {
		return strings.TrimSuffix(serving, "}") + `, "certificates": [{}` + strings.Repeat(",{}", n) + "]}"
	}
	const note = "the output has more than 8192 values, and the rest is not shown"
	const tooLong = "the output is longer than 1048576 bytes"
	rest := many(50_000)
	checked := strings.Replace(checkedOK, `"checks": []`, `"checks": [{"name": "dns"}`+strings.Repeat(`,{"name": "dns"}`, 50_000)+"]", 1)
	for name, tt := range map[string]struct {
		args   []string
		output string
		code   int
		want   string
	}{
		"status": {
			[]string{"status"},
			rest, cli.OK,
			"m0    ✓ Standby*Warning:        ! [node-not-reporting] m1: " + note + "*  oc get node m1",
		},
		"status, JSON": {[]string{"status", "-o", "json"}, rest, cli.OK, `"message": "m1: ` + note + `"`},
		"status, HTML": {[]string{"status", "-o", "html"}, rest, cli.OK, "<p>m1: " + note + "</p>*m0*m1*without SNI: "},
		"condition":    {[]string{"condition"}, rest, cli.OK, "m1: " + note + "; 2 hosts have reported"},
		"too long": {
			[]string{"status"},
			many(400_000), cli.Unknown,
			"m0    ✓ Standby*! [node-not-reporting] m1: " + tooLong,
		},
		"check": {
			[]string{"check"},
			checked, cli.Unknown,
			"m0    ✓ ok*m1    ! incomplete*Not checked:    - m1: " + note,
		},
		"check, JSON": {[]string{"check", "-o", "json"}, checked, cli.Unknown, `"notChecked": [*"` + note + `"`},
		"trace": {
			[]string{"trace"},
			`{"message": "interrupted", "packets": [{}` + strings.Repeat(",{}", 50_000) + "]}", cli.OK,
			"on m1,*Note:           ! interrupted; the output has more than 32768 values, and the rest is not shown",
		},
	} {
		t.Run(name, func(t *testing.T) {
			outputs := map[string]string{"m0": statusOf("Standby", "Standby"), "m1": tt.output}
			switch tt.args[0] {
			case "check":
				outputs["m0"] = checkedOK
			case "trace":
				outputs["m1"] = serving
			}
			installOC(t, outputs)
			dir, _, _ := strings.Cut(os.Getenv("PATH"), ":")
			must(t, os.WriteFile(filepath.Join(dir, "m1-trace"), []byte(tt.output), 0o600))
			got := runLine(t, "", tt.args...)
			if got.code != tt.code || got.err != "" || !inOrder(got.out, tt.want) {
				t.Errorf("exit code %d, want %d: %s\n%.4000s\nwant %q", got.code, tt.code, got.err, got.out, tt.want)
			}
		})
	}
}

// TestNoOC: without oc, the command fails and reports how to install it.
func TestNoOC(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	got := runLine(t, "", "check", "-o", "json")
	var e struct{ Kind, Message string }
	must(t, json.Unmarshal([]byte(got.err), &e))
	if got.code != cli.Failure || got.out != "" || e.Kind != "Error" || !strings.HasSuffix(e.Message,
		": install the OpenShift CLI, and add its folder to PATH") {
		t.Errorf("%+v", got)
	}
}

// inOrder reports whether the text contains the pieces between the stars, in that
// order.
func inOrder(text, pieces string) bool {
	for piece := range strings.SplitSeq(pieces, "*") {
		_, rest, found := strings.Cut(text, piece)
		if !found {
			return false
		}
		text = rest
	}
	return true
}
