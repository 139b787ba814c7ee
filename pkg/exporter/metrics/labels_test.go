// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/internal/stabletest"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// TestEveryLabelValueHasASeries: a value that is added to a set has a series from the start.
func TestEveryLabelValueHasASeries(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		file, kind string
		got        []string
	}{
		"outcomes":   {"../../report/traffic.go", "Outcome", toText(report.Outcomes())},
		"rejections": {"../../report/challenge.go", "Rejection", toText(report.Rejections())},
		"clients":    {"../../report/traffic.go", "ClientKind", toText(report.ClientKinds())},
		"reasons":    {"../../report/condition.go", "Reason", toText(reasons())},
	} {
		want := declaredConstants(t, tt.file, tt.kind)
		slices.Sort(want)
		slices.Sort(tt.got)
		if diff := cmp.Diff(want, tt.got); diff != "" || len(want) < 5 {
			t.Errorf("%s: %d in the source (-want +got):\n%s", name, len(want), diff)
		}
	}
}

// TestStableStates holds the states, which alerts and scripts compare with, to docs/reference/stable.
func TestStableStates(t *testing.T) {
	t.Parallel()
	update := flag.Lookup("update").Value.String() == "true"
	stabletest.Check(t, update, "../../..", "states", toText(reasons()))
}

// declaredConstants returns the values of a file's constants of a type.
func declaredConstants(t *testing.T, file, kind string) (values []string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || spec.Type == nil {
			return true
		}
		if of, ok := spec.Type.(*ast.Ident); !ok || of.Name != kind {
			return true
		}
		for _, v := range spec.Values {
			value, err := strconv.Unquote(v.(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			values = append(values, value)
		}
		return true
	})
	return values
}
