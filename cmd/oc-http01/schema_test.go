// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/internal/schematest"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

var update = flag.Bool("update", false, "write the schemas")

// tracedAll is a trace with all fields.
const tracedAll = `{"apiVersion": "http01-proxyd.github.io/v1alpha1", "kind": "Trace", "host": "m", "time": "2026-01-02T03:04:05Z", "durationMs": 1, "vips": ["192.0.2.5"],
"devices": [{"name": "eth0", "index": 2, "kind": "vip"}], "lost": 1, "message": "m", "packets": [{"time": "2026-01-02T03:04:05.123456Z", "client": "203.0.113.9:40000",
"vip": "192.0.2.5:80", "reply": false, "local": false, "flags": "SYN", "end": "lost", "translatedTo": 8888, "redirected": true, "message": "m", "fix": "f",
"counters": [{"name": "c", "grown": 1, "meaning": "m"}], "steps": [{"device": "eth0", "family": "inet", "table": "t", "chain": "c", "hook": "input", "priority": 0,
"own": false, "ruleChain": "r", "handle": 1, "rule": "drop", "verdict": "drop", "port": 80}]}]}`

// TestSchemas holds the schemas of the cluster's documents to the types and to real
// output.
func TestSchemas(t *testing.T) {
	t.Chdir("../..")
	output := func(nodes map[string]string, args ...string) []byte {
		installOC(t, nodes)
		return []byte(runLine(t, "", append(args, "-o", "json")...).out)
	}
	serving, standby := statusOf("Serving", "Held"), statusOf("Standby", "Standby")
	schematest.Check[report.ClusterStatus](t, *update, "cluster-status", "ClusterStatus", nil,
		output(map[string]string{"master0": serving, "master1": standby}, "status"),
		output(map[string]string{"master0": standby, "master1": "hello"}, "status"),
		output(map[string]string{"master0": ""}, "status"))
	schematest.Check[report.ClusterCheck](t, *update, "cluster-check", "ClusterCheck", nil,
		output(map[string]string{"master0": checkedProblem, "master1": checkedOK}, "check"),
		output(map[string]string{"master0": ""}, "check"))
	installOC(t, map[string]string{"master0": serving, "master1": serving})
	traces, _, _ := strings.Cut(os.Getenv("PATH"), ":")
	must(t, os.WriteFile(filepath.Join(traces, "master0-trace"), []byte(tracedAll), 0o600))
	schematest.Check[report.ClusterTrace](t, *update, "cluster-trace", "ClusterTrace", nil,
		[]byte(runLine(t, "", "trace", "-o", "json").out))
	installCluster(t, map[string]string{"master0": serving, "master1": ""})
	schematest.Check[report.ClusterCertificate](t, *update, "cluster-certificate", "ClusterCertificate", nil,
		[]byte(runLine(t, "", "certificate", "-o", "json").out),
		[]byte(runLine(t, "", "certificate", "other.example.com", "-o", "json").out))
	dir := t.TempDir()
	schematest.Check[report.ClusterCondition](t, *update, "cluster-condition", "ClusterCondition", nil,
		output(map[string]string{"master0": serving}, "condition"), output(map[string]string{"master0": ""}, "condition"))
	full := filepath.Join(dir, "full.yaml")
	must(t, os.WriteFile(full, []byte(clusterList(policyLists(t))), 0o600))
	pool := filepath.Join(dir, "pool.yaml")
	must(t, os.WriteFile(pool, []byte(poolObject), 0o600))
	patched := filepath.Join(dir, "patched.yaml")
	must(t, os.WriteFile(patched, []byte(clusterList("    files: []\n")), 0o600))
	schematest.Check[report.Preflight](t, *update, "preflight", "Preflight", nil,
		output(nil, "preflight", full), output(nil, "preflight", pool), output(nil, "preflight", patched))
	schematest.Check[renderedFiles](t, *update, "rendered-files", "RenderedFiles", []string{"cmd/oc-http01"},
		output(nil, "render", "--image", image, "--output-dir", dir),
		output(nil, "render", "--layered", "--output-dir", dir))
}
