// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
)

// TestEveryFindingHasTest: for each entry, a test injects the fault with real
// components and expects it by ID. Unit tests cover entries without a check, and faults
// that cannot be injected.
func TestEveryFindingHasTest(t *testing.T) {
	t.Parallel()
	lab := readTests(t, "../../test/suites/check", "../../test/support/host", "../../test/suites/microshift")
	ingress := readTests(t, "../../test/suites/ingress")
	// The hosts of the tests have no SELinux policy.
	unreal := map[findings.ID]string{findings.SELinuxLabel: "service", findings.SELinuxUnit: "service"}
	for _, e := range findings.All() {
		id := regexp.QuoteMeta(string(e.ID))
		// A test with several possible findings separates them with |.
		named := regexp.MustCompile(`["|]` + id + `["|]`)
		// The tests of the ingress also name causes, some of which equal a finding's
		// ID.
		found := regexp.MustCompile(`finds:\s*"(?:[^"]*\|)?` + id + `["|]|p\.check\(t, \[\]string\{"` + id + `"`)
		var tested bool
		switch folder := unreal[e.ID]; {
		case e.JournalOnly:
			constant := regexp.MustCompile(`(?i)\bfindings\.` + strings.ReplaceAll(string(e.ID), "-", "") + `\b`)
			tested = constant.Match(readTests(t, "../proxy/upstream"))
		case e.Check == findings.PreflightCheck:
			tested = named.Match(readTests(t, "../cluster/preflight"))
		case e.ClusterOnly:
			tested = named.Match(readTests(t, "../cluster/condition"))
		case folder != "":
			tested = named.Match(readTests(t, folder))
		default:
			tested = named.Match(lab) || found.Match(ingress)
		}
		if !tested {
			t.Errorf("no test names %q: add one that injects the fault, usually in test/suites/check (CONTRIBUTING.md, Add a finding)", e.ID)
		}
	}
}

// readTests is the text of the tests in some folders.
func readTests(t *testing.T, folders ...string) []byte {
	t.Helper()
	var all []byte
	for _, folder := range folders {
		paths, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
		if err != nil || len(paths) == 0 {
			t.Fatalf("no tests in %s: %v", folder, err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, text...)
		}
	}
	return all
}

// TestPlaceholders: each finding that is created with a literal gets a value for every
// placeholder of its texts.
func TestPlaceholders(t *testing.T) {
	t.Parallel()
	ids := make(map[string]findings.ID) // by the name of the constant
	for _, f := range parseFiles(t, "../findings") {
		ast.Inspect(f, func(n ast.Node) bool {
			if spec, ok := n.(*ast.ValueSpec); ok && len(spec.Values) == 1 {
				if id, err := strconv.Unquote(literal(spec.Values[0])); err == nil {
					ids[spec.Names[0].Name] = findings.ID(id)
				}
			}
			return true
		})
	}
	placeholder := regexp.MustCompile(`\{([A-Za-z]+)\}`)
	created := 0
	for _, f := range parseFiles(t, ".") {
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) != 2 || !isNew(call.Fun) {
				return true
			}
			name, isConstant := call.Args[0].(*ast.SelectorExpr)
			values, isLiteral := call.Args[1].(*ast.CompositeLit)
			if !isConstant || !isLiteral || ids[name.Sel.Name] == "" {
				return true // the ID is a variable
			}
			created++
			given := make(map[string]bool)
			for _, element := range values.Elts {
				key, err := strconv.Unquote(literal(element.(*ast.KeyValueExpr).Key))
				if err != nil {
					t.Fatal(err)
				}
				given[key] = true
			}
			e, known := findings.Lookup(ids[name.Sel.Name])
			if !known {
				t.Errorf("no entry for %s", name.Sel.Name)
			}
			for _, m := range placeholder.FindAllStringSubmatch(e.Message+e.Remediation, -1) {
				if !given[m[1]] {
					given[m[1]] = true // report it once
					t.Errorf("%s: no value for {%s}", e.ID, m[1])
				}
			}
			return true
		})
	}
	if created < 30 {
		t.Errorf("only %d findings are created with literals", created)
	}
}

func parseFiles(t *testing.T, dir string) []*ast.File {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	topics, err := filepath.Glob(filepath.Join(dir, "*", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	paths = append(paths, topics...)
	var files []*ast.File
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	return files
}

func literal(e ast.Expr) string {
	if l, ok := e.(*ast.BasicLit); ok {
		return l.Value
	}
	return ""
}

func isNew(e ast.Expr) bool {
	s, ok := e.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	pkg, creates := map[string]string{"New": "findings", "Found": "result"}[s.Sel.Name]
	x, ok := s.X.(*ast.Ident)
	return creates && ok && x.Name == pkg
}
