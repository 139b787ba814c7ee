// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// document is the document for operators.
const document = "../../../docs/topologies.md"

// row is one topology in the document.
type row struct {
	topology string
	test     string
	findings []string // expected findings of check
	states   []string // states of the control-plane nodes, sorted
}

// TestRows holds that each test has a row and each row a test, and that rows exist for both
// ways in which keepalived finds its peers (see expectPeers).
func TestRows(t *testing.T) {
	var documented []string
	modes := map[string]string{}
	for _, r := range rows(t) {
		documented = append(documented, r.test)
		if mode := peerMode.FindString(r.topology); mode != "" {
			modes[r.test] = mode
		}
	}
	if diff := cmp.Diff(map[string]string{"TestStandard": "unicast", "TestMulticast": "multicast"}, modes); diff != "" {
		t.Errorf("how keepalived finds its peers in %s (-tests +rows):\n%s", document, diff)
	}
	slices.Sort(documented)
	if diff := cmp.Diff(tests(t), documented); diff != "" {
		t.Errorf("rows of %s (-tests +rows):\n%s", document, diff)
	}
}

// peerMode matches how keepalived finds its peers in a row.
var peerMode = regexp.MustCompile("unicast|multicast")

// code matches text between back quotes.
var code = regexp.MustCompile("`([^`]+)`")

// convention matches the states that hold unless a row has others.
var convention = regexp.MustCompile("(?s)```text\n(.*?)\n```")

// rows parses the document's tables. The last cell has the test. A row of three cells, or
// one whose third cell has no state, follows the convention. The second of five cells has
// the findings of check.
func rows(t *testing.T) []row {
	t.Helper()
	text, err := os.ReadFile(document)
	must(t, err)
	usual := convention.FindSubmatch(text)
	if usual == nil {
		t.Fatalf("%s has no convention", document)
	}
	var all []row
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		test := code.FindStringSubmatch(cells[len(cells)-1])
		if test == nil || len(cells) != 3 && len(cells) != 5 {
			continue
		}
		r := row{topology: cells[0], test: test[1]}
		if len(cells) == 5 {
			r.findings = quoted(cells[1])
			r.states = quoted(cells[2])
		}
		if len(r.states) == 0 {
			r.states = strings.Split(string(usual[1]), "\n")
		}
		slices.Sort(r.findings)
		slices.Sort(r.states)
		all = append(all, r)
	}
	return all
}

// quoted returns the texts between back quotes.
func quoted(cell string) []string {
	var all []string
	for _, m := range code.FindAllStringSubmatch(cell, -1) {
		all = append(all, m[1])
	}
	return all
}

// tests returns the topology tests of this package, sorted.
func tests(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("*_test.go")
	must(t, err)
	var names []string
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		must(t, err)
		for _, d := range parsed.Decls {
			f, is := d.(*ast.FuncDecl)
			if is && strings.HasPrefix(f.Name.Name, "Test") && f.Name.Name != "TestMain" && f.Name.Name != "TestRows" {
				names = append(names, f.Name.Name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// expectStates compares the services' states with the test's row. The message names a moved
// VIP only after the service's own request to it.
func (s *testbed) expectStates() {
	s.t.Helper()
	s.expectPeers()
	must(s.t, lab.Eventually(s.t.Context(), "the states in "+document, func(ctx context.Context) error {
		seen, err := s.states(ctx)
		if err != nil {
			return err
		}
		if diff := cmp.Diff(s.row().states, seen); diff != "" {
			return fmt.Errorf("-documented +seen:\n%s", diff)
		}
		return nil
	}))
}

// states returns the distinct states of the services, sorted.
func (s *testbed) states(ctx context.Context) ([]string, error) {
	seen := map[string]bool{}
	for _, n := range s.nodes() {
		if s.services[n.Name] == nil {
			continue
		}
		status, err := s.services[n.Name].Status(ctx)
		if err != nil {
			return nil, err
		}
		condition := status.Condition()
		if (condition.Status == "True") != slices.Contains([]string{"Serving", "Standby", "NotRequired"}, condition.Reason) {
			return nil, fmt.Errorf("%s is %s for the reason %s", condition.Type, condition.Status, condition.Reason)
		}
		state := condition.Reason + ": " + condition.Message
		seen[strings.ReplaceAll(state, n.KeepalivedConfig(), "/etc/keepalived/keepalived.conf")] = true
	}
	return slices.Sorted(maps.Keys(seen)), nil
}

// expectPeers compares how keepalived finds its peers with the test's row.
func (s *testbed) expectPeers() {
	s.t.Helper()
	mode := peerMode.FindString(s.row().topology)
	if mode == "" {
		return
	}
	for _, m := range s.ControlPlane {
		text, err := os.ReadFile(m.KeepalivedConfig())
		must(s.t, err)
		if strings.Contains(string(text), "unicast_peer") != (mode == "unicast") {
			s.t.Errorf("keepalived on %s is not %s, which %s documents", m, mode, document)
		}
	}
}

// row returns the row of the test.
func (s *testbed) row() row {
	s.t.Helper()
	all := rows(s.t)
	i := slices.IndexFunc(all, func(r row) bool { return r.test == s.t.Name() })
	if i < 0 {
		s.t.Fatalf("%s has no row of %s", s.t.Name(), document)
	}
	return all[i]
}
