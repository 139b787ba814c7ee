// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/cli"
)

// TestDocumentedExitCodes: docs/reference/exit-codes.md has the table of the help.
func TestDocumentedExitCodes(t *testing.T) {
	t.Parallel()
	document, err := os.ReadFile("../../../docs/reference/exit-codes.md")
	if err != nil {
		t.Fatal(err)
	}
	table := func(text, row string) [][]string {
		var all [][]string
		for _, m := range regexp.MustCompile(row).FindAllStringSubmatch(text, -1) {
			all = append(all, m[1:])
		}
		return all
	}
	all, _, _ := strings.Cut(string(document), "Details of 3 and 4")
	help := table(cli.ExitCodes, `(?m)^  (\d)  (.*)$`)
	if diff := cmp.Diff(help, table(all, `(?m)^- (\d): (.*)$`)); diff != "" || len(help) == 0 {
		t.Errorf("exit codes (-help +document):\n%s", diff)
	}
}
