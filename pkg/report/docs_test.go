// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"
)

// TestREADMEExplainsEveryReason: README has every reason of the condition.
func TestREADMEExplainsEveryReason(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	file, err := parser.ParseFile(token.NewFileSet(), "condition.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || spec.Type == nil {
			return true
		}
		if kind, ok := spec.Type.(*ast.Ident); !ok || kind.Name != "Reason" {
			return true
		}
		for _, v := range spec.Values {
			reason, err := strconv.Unquote(v.(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			found++
			if !strings.Contains(string(readme), "\n| `"+reason+"` |") {
				t.Errorf("README's table of states lacks %s", reason)
			}
		}
		return true
	})
	if found < 10 {
		t.Errorf("found %d reasons only: has the source moved?", found)
	}
}
