// SPDX-License-Identifier: Apache-2.0

package rehearsal_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/rehearsal/cluster"
)

// The table of docs/troubleshooting.md, and its rows with the text.
var (
	section = regexp.MustCompile("(?s)\n## By cert-manager's message\n(.*?)\n## ")
	row     = regexp.MustCompile("(?m)^\\| `([^`]+)` \\|.*")
)

// tableRow is a row of the table.
type tableRow struct {
	text       string
	expression *regexp.Regexp // an ellipsis stands for any text
	row        string
}

// cause reports whether the text names a cause: the row of the prefix has no finding.
func (r tableRow) cause() bool { return !strings.HasPrefix(r.text, "Waiting for ") }

// table returns the rows of the table.
func table(t *testing.T) (all []tableRow) {
	t.Helper()
	text := must1(os.ReadFile(filepath.Join("..", "..", "docs", "troubleshooting.md")))(t)
	found := section.FindSubmatch(text)
	if found == nil {
		t.Fatal("docs/troubleshooting.md has no section about cert-manager's messages")
	}
	for _, r := range row.FindAllStringSubmatch(string(found[1]), -1) {
		all = append(all, tableRow{r[1], regexp.MustCompile(strings.ReplaceAll(regexp.QuoteMeta(r[1]), "…", ".*")), r[0]})
	}
	if len(all) < 10 {
		t.Errorf("the table has %d texts", len(all))
	}
	return all
}

// compareTable expects that cert-manager has written each text of the table in
// docs/troubleshooting.md, and that each text with a finding has a row that names it.
func (s *shared) compareTable(t *testing.T) {
	t.Helper()
	rows := table(t)
	for _, r := range rows {
		one, is := s.messages.find("", r.expression)
		if !is {
			t.Errorf("cert-manager has not written %q", r.text)
			continue
		}
		t.Logf("%s\n%s", r.text, one)
	}
	for _, p := range s.pairs {
		// The lab's DNS server answers with an empty referral instead of NXDOMAIN.
		text := strings.Replace(p.text, "lame referral", "no such host", 1)
		matches := func(r tableRow) bool { return r.cause() && r.expression.MatchString(text) }
		if text != "" && !slices.ContainsFunc(rows, matches) {
			t.Errorf("no row has the text %q", text)
		}
		for _, r := range rows {
			if matches(r) && !strings.Contains(r.row, "["+p.finding+"]") {
				t.Errorf("the row of %q lacks %s", r.text, p.finding)
			}
		}
	}
}

// verb is a verb of a format.
var verb = regexp.MustCompile(`%[a-z]`)

// TestTableIsComplete holds that the table has each error of cert-manager's self check, as
// its source prints it.
func TestTableIsComplete(t *testing.T) {
	t.Parallel()
	dir := must1(cluster.Module(run, "rehearsal", "github.com/cert-manager/cert-manager"))(t)
	file := must1(parser.ParseFile(token.NewFileSet(), filepath.Join(dir, "pkg/issuer/acme/http/http.go"), nil, parser.SkipObjectResolution))(t)
	rows := table(t)
	formats := 0
	for _, d := range file.Decls {
		if f, is := d.(*ast.FuncDecl); !is || f.Name.Name != "testReachability" {
			continue
		}
		ast.Inspect(d, func(n ast.Node) bool {
			call, is := n.(*ast.CallExpr)
			if !is || !isErrorf(call) {
				return true
			}
			literal, is := call.Args[0].(*ast.BasicLit)
			if !is {
				t.Errorf("the format %v is not a literal", call.Args[0])
				return true
			}
			format := must1(strconv.Unquote(literal.Value))(t)
			formats++
			expression := regexp.MustCompile(verb.ReplaceAllString(regexp.QuoteMeta(format), ".*"))
			if !slices.ContainsFunc(rows, func(r tableRow) bool { return expression.MatchString(r.text) }) {
				t.Errorf("no row has cert-manager's text %q", format)
			}
			return true
		})
	}
	if formats < 4 {
		t.Errorf("cert-manager's self check has %d errors: its source has changed", formats)
	}
}

// isErrorf reports whether an expression is a call of fmt.Errorf.
func isErrorf(call *ast.CallExpr) bool {
	selector, is := call.Fun.(*ast.SelectorExpr)
	return is && selector.Sel.Name == "Errorf" && len(call.Args) > 0
}
