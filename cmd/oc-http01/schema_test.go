// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/internal/schematest"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

var update = flag.Bool("update", false, "write the schemas")

// TestSchemas holds the schemas of the cluster's documents to the types and to real
// output.
func TestSchemas(t *testing.T) {
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
