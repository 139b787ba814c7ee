// SPDX-License-Identifier: Apache-2.0

package matrix

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the table")

const document = "../../../../docs/internals/sandbox-matrix.md"

// TestDocumentIsCurrent: the document has the table that TestSandboxMatrix measures.
func TestDocumentIsCurrent(t *testing.T) {
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	const begin = "|acts|"
	head, old, found := strings.Cut(string(text), begin)
	if !found {
		t.Fatalf("%s has no table", document)
	}
	if *update {
		if err := os.WriteFile(document, []byte(head+Table()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(Table(), begin+old); diff != "" {
		t.Errorf("run make docs (-want +got):\n%s", diff)
	}
}
