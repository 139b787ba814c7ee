// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What docs/support.md has one collect for a support case can be collected, and
// what it has one stop is gone. Its blocks marked sh are run on a master; what is
// marked console needs an OpenShift.
func TestSupportDocument(t *testing.T) {
	c := whole(t)
	before := snapshots(t, c)
	// The cluster is left as it was, also after a failure.
	t.Run("while it runs", func(t *testing.T) {
		serve(t, c)
		must(t, c.AwaitServing(t.Context(), c.Masters[0]))
		blocks := map[string]string{}
		for _, part := range strings.Split(string(repositoryFile(t, "docs/support.md")), "\n## ")[1:] {
			section, text, _ := strings.Cut(part, "\n")
			if _, text, found := strings.Cut(text, "```sh\n"); found {
				blocks[section], _, _ = strings.Cut(text, "```")
			}
		}
		for _, section := range []string{"For a support case", "Switch it off"} {
			out, err := c.Masters[0].Run(t.Context(), "bash", "-euc", blocks[section])
			must(t, err)
			if out != "" || blocks[section] == "" {
				t.Errorf("%s: %s%s", section, blocks[section], out)
			}
			delete(blocks, section)
		}
		if len(blocks) != 0 {
			t.Errorf("nothing runs these: %q", blocks)
		}
		out, err := c.Masters[0].Run(t.Context(), "sh", "-c", "tar -tzf /tmp/http01-proxyd.tar.gz | sort; cd /tmp/http01-proxyd; find . -empty")
		must(t, err)
		want := []string{
			"http01-proxyd/", "http01-proxyd/addresses.txt", "http01-proxyd/check.json", "http01-proxyd/journal.export",
			"http01-proxyd/ruleset.txt", "http01-proxyd/status.json", "http01-proxyd/units.txt", "http01-proxyd/version.txt",
		}
		if diff := cmp.Diff(want, strings.Fields(out)); diff != "" {
			t.Errorf("collected (-want +got), and what is empty of it:\n%s", diff)
		}
		tables, err := c.Masters[0].Run(t.Context(), "nft", "list", "tables")
		must(t, err)
		if strings.Contains(tables, "http01-proxyd") {
			t.Errorf("switched off, there are: %s", tables)
		}
		_, err = c.Masters[0].Run(t.Context(), "rm", "-r", "/tmp/http01-proxyd", "/tmp/http01-proxyd.tar.gz")
		must(t, err)
	})
	takeAway(t, c)
	for i, after := range snapshots(t, c) {
		if diff := before[i].Diff(after); diff != "" {
			t.Errorf("%s (-before +after):\n%s", c.Masters[i], diff)
		}
	}
}
