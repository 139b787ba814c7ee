// SPDX-License-Identifier: Apache-2.0

package microshift_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/pkg/host/microshift"
)

// TestDocumentedConfigurations parses each configuration example of the document. Each must
// change a value.
func TestDocumentedConfigurations(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../docs/microshift.md")
	must(t, err)
	examples := regexp.MustCompile("(?ms)^```yaml microshift\n(.*?)^```$").FindAllSubmatch(text, -1)
	if len(examples) == 0 {
		t.Fatal("no example found")
	}
	empty, err := microshift.Read(t.TempDir())
	must(t, err)
	for _, example := range examples {
		dir := writeFiles(t, map[string]string{"config.d/10-example.yaml": string(example[1])})
		c, err := microshift.Read(dir)
		if err != nil {
			t.Errorf("%s: %v", example[1], err)
		} else if cmp.Equal(empty, c, sameAddr, samePrefix) {
			t.Errorf("nothing of it is understood: %s", example[1])
		}
	}
}
