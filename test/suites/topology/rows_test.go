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

// document tells operators what happens in each topology.
const document = "../../../docs/topologies.md"

// row is one topology in the document.
type row struct {
	topology string
	test     string
	findings []string // what `http01-proxyd check` may say
	states   []string // what `http01-proxyd status` says on the masters, sorted
}

// TestRows: each test has a row and each row has its test, and both ways in which
// keepalived finds its peers have one; its test holds that it is so (see peers).
func TestRows(t *testing.T) {
	var documented []string
	ways := map[string]string{}
	for _, r := range rows(t) {
		documented = append(documented, r.test)
		if way := peerMode.FindString(r.topology); way != "" {
			ways[r.test] = way
		}
	}
	if diff := cmp.Diff(map[string]string{"TestStandard": "unicast", "TestMulticast": "multicast"}, ways); diff != "" {
		t.Errorf("how keepalived finds its peers in %s (-tests +rows):\n%s", document, diff)
	}
	slices.Sort(documented)
	if diff := cmp.Diff(tests(t), documented); diff != "" {
		t.Errorf("rows of %s (-tests +rows):\n%s", document, diff)
	}
}

// peerMode is how keepalived finds its peers, where a row says it.
var peerMode = regexp.MustCompile("unicast|multicast")

// code is what stands in the document between back quotes.
var code = regexp.MustCompile("`([^`]+)`")

// rows reads the document's table: its second cell has what check says, the third
// what the state says, and the last one names the test.
func rows(t *testing.T) []row {
	t.Helper()
	text, err := os.ReadFile(document)
	must(t, err)
	var all []row
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		test := code.FindStringSubmatch(cells[len(cells)-1])
		if len(cells) != 5 || test == nil {
			continue
		}
		r := row{topology: cells[0], test: test[1]}
		for _, state := range code.FindAllStringSubmatch(cells[2], -1) {
			r.states = append(r.states, state[1])
		}
		for _, finding := range code.FindAllStringSubmatch(cells[1], -1) {
			// The command itself is not one.
			if finding[1] != "check" {
				r.findings = append(r.findings, finding[1])
			}
		}
		slices.Sort(r.findings)
		slices.Sort(r.states)
		all = append(all, r)
	}
	return all
}

// tests lists the tests of this package that are about a topology, sorted.
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

// expectStates compares what the services say of their state with the test's row. The
// message of a state names a VIP that has moved after the service's own request to it.
func (s *site) expectStates() {
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

// states returns the states that the services report, sorted, each once.
func (s *site) states(ctx context.Context) ([]string, error) {
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

// expectPeers compares how the masters' keepalived finds its peers with the test's row.
func (s *site) expectPeers() {
	s.t.Helper()
	way := peerMode.FindString(s.row().topology)
	if way == "" {
		return
	}
	for _, m := range s.Masters {
		text, err := os.ReadFile(m.KeepalivedConfig())
		must(s.t, err)
		if strings.Contains(string(text), "unicast_peer") != (way == "unicast") {
			s.t.Errorf("keepalived on %s is not %s, as %s has it", m, way, document)
		}
	}
}

// row is the test's own.
func (s *site) row() row {
	s.t.Helper()
	all := rows(s.t)
	i := slices.IndexFunc(all, func(r row) bool { return r.test == s.t.Name() })
	if i < 0 {
		s.t.Fatalf("%s has no row of %s", s.t.Name(), document)
	}
	return all[i]
}
