// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"path"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestRunbooks runs the commands of docs/runbooks marked sh on a host: the files for a
// support case are complete, and the service can be turned off. Blocks marked console need
// OpenShift.
func TestRunbooks(t *testing.T) {
	c := useCluster(t)
	before := snapshots(t, c)
	// The cluster is restored also after a failure.
	t.Run("while it runs", func(t *testing.T) {
		installService(t, c)
		must(t, c.AwaitServing(t.Context(), c.ControlPlane[0]))
		blocks := map[string]string{}
		for _, document := range []string{"docs/runbooks/README.md", "docs/runbooks/support-case.md"} {
			for _, part := range strings.Split(string(repositoryFile(t, document)), "\n## ")[1:] {
				section, text, _ := strings.Cut(part, "\n")
				if _, text, found := strings.Cut(text, "```sh\n"); found {
					blocks[section], _, _ = strings.Cut(text, "```")
				}
			}
		}
		printed := map[string]string{}
		for _, section := range []string{"From one node", "Turn the service off"} {
			out := must1(c.ControlPlane[0].Run(t.Context(), "bash", "-euc", blocks[section]))(t)
			if blocks[section] == "" {
				t.Errorf("%s has no commands", section)
			}
			printed[section] = strings.TrimSpace(out)
			delete(blocks, section)
		}
		archive := printed["From one node"]
		if printed["Turn the service off"] != "" || !strings.HasSuffix(archive, "/http01-proxyd.tar.gz") ||
			strings.ContainsAny(archive, " \n") {
			t.Fatalf("printed: %q", printed)
		}
		folder := path.Dir(archive)
		if len(blocks) != 0 {
			t.Errorf("no test runs these blocks: %q", blocks)
		}
		out := must1(c.ControlPlane[0].Run(t.Context(), "sh", "-c", "tar -tzf "+archive+" | sort; cd "+folder+
			"; find . -empty; find . -perm /077 -prune -name ."))(t)
		want := []string{
			"http01-proxyd/", "http01-proxyd/addresses.txt", "http01-proxyd/check.json", "http01-proxyd/journal.export",
			"http01-proxyd/ruleset.txt", "http01-proxyd/status.json", "http01-proxyd/units.txt", "http01-proxyd/version.txt",
		}
		if diff := cmp.Diff(want, strings.Fields(out)); diff != "" {
			t.Errorf("archive, empty files and files that others can read (-want +got):\n%s", diff)
		}
		tables := must1(c.ControlPlane[0].Run(t.Context(), "nft", "list", "tables"))(t)
		if strings.Contains(tables, "http01-proxyd") {
			t.Errorf("tables after the service was turned off: %s", tables)
		}
		must1(c.ControlPlane[0].Run(t.Context(), "rm", "-r", folder))(t)
	})
	uninstall(t, c)
	expectUnchanged(t, c, before)
}
