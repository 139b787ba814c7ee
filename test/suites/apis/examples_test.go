// SPDX-License-Identifier: Apache-2.0

package apis

import (
	"encoding/csv"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// example returns the only block of a document with a mark.
func example(t *testing.T, document, mark string) string {
	t.Helper()
	text := must1(os.ReadFile(root + "/docs/" + document))(t)
	blocks := regexp.MustCompile("(?s)```"+mark+"\n(.*?)```").FindAllSubmatch(text, -1)
	if len(blocks) != 1 {
		t.Fatalf("docs/%s has %d blocks %s", document, len(blocks), mark)
	}
	return string(blocks[0][1])
}

// TestCustomEntries checks that the entries for oc commatrix match the remediation, for the
// usual ports.
func TestCustomEntries(t *testing.T) {
	t.Parallel()
	const entry = "ingress,TCP,{port},,http01-proxyd,,,master,false"
	findings := string(must1(os.ReadFile(root + "/docs/troubleshooting/ruleset.md"))(t))
	if !strings.Contains(strings.Join(strings.Fields(findings), " "), "the custom entry "+entry+". ") {
		t.Error("no finding has the entry")
	}
	want := "Direction,Protocol,Port,Namespace,Service,Pod,Container,NodeGroup,Optional\n" +
		strings.ReplaceAll(entry, "{port}", "8888") + "\n" + strings.ReplaceAll(entry, "{port}", "9645") + "\n"
	got := example(t, "topologies.md", "csv")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// The generator rejects rows of another length.
	must1(csv.NewReader(strings.NewReader(got)).ReadAll())(t)
}
