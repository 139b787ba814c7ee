// SPDX-License-Identifier: Apache-2.0

package terminal_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/terminal"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// TestGoldenCertificate compares the text form of the reports that the tests of pkg/cluster/chain compare with
// their objects. Each fits 80 columns, except commands and URLs.
func TestGoldenCertificate(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("../../../pkg/cluster/chain/testdata/*.json")
	if err != nil || len(paths) < 10 {
		t.Fatalf("%d reports, %v", len(paths), err)
	}
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".json")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var c report.ClusterCertificate
			if err := json.Unmarshal(text, &c); err != nil {
				t.Fatal(err)
			}
			got := render(t, terminal.Certificate(c), terminal.View{Width: 80})
			compareGolden(t, "certificate/"+name+".80.txt", got)
			for line := range strings.Lines(got) {
				command := strings.HasPrefix(line, "  oc ") || strings.HasPrefix(line, "  printf ")
				if n := len([]rune(line)); n > 81 && !command && !strings.Contains(line, "https://") {
					t.Errorf("a line of %d characters: %s", n, line)
				}
			}
			if bad := strings.Contains(got, "✗"); bad != strings.HasPrefix(got, "Result:         ✗") {
				t.Errorf("the mark of the result does not fit:\n%s", got)
			}
		})
	}
}
