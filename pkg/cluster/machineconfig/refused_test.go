// SPDX-License-Identifier: Apache-2.0

package machineconfig_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/machineconfig"
)

// TestRefusedSources runs the script in testdata/refused.txt.
func TestRefusedSources(t *testing.T) {
	t.Parallel()
	script := must1(os.ReadFile("testdata/refused.txt"))(t)
	ran := 0
	for _, block := range regexp.MustCompile(`\n{2,}`).Split(string(script), -1) {
		if strings.HasPrefix(block, "#") || strings.TrimSpace(block) == "" {
			continue
		}
		ran++
		t.Run(strings.ReplaceAll(block, "/", "|"), func(t *testing.T) {
			t.Parallel()
			lines := map[string][]string{}
			first, rest, _ := strings.Cut(strings.TrimSuffix(block, "\n"), "\n")
			for line := range strings.SplitSeq(rest, "\n") {
				mark, text, ok := strings.Cut(line, " ")
				if !ok || !slices.Contains([]string{"-", "+", ">"}, mark) {
					t.Fatalf("a line that begins with none of - + >: %q", line)
				}
				lines[mark] = append(lines[mark], text)
			}
			file, pool, _ := strings.Cut(first, " ")
			if pool == "" {
				pool = "master"
			}
			changed := edited(t, file, strings.Join(lines["-"], "\n"), strings.Join(lines["+"], "\n"))
			said := rejection(t, changed, machineconfig.Request{Image: image, Pool: pool})
			if diff := cmp.Diff(lines[">"], strings.Split(said, "\n")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if ran < 15 {
		t.Errorf("the script has %d blocks only", ran)
	}
}
