// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"context"
	"fmt"
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
	test     string
	findings []string // expected findings of check
	states   []string // states of the control-plane nodes, sorted
}

// TestRows holds that each test has a row and each row a test.
func TestRows(t *testing.T) {
	documented := []string{"TestRows"}
	for _, r := range rows(t) {
		documented = append(documented, r.test)
	}
	files, err := filepath.Glob("*_test.go")
	must(t, err)
	var tests []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		must(t, err)
		for _, f := range test.FindAllSubmatch(text, -1) {
			tests = append(tests, string(f[1]))
		}
	}
	slices.Sort(documented)
	slices.Sort(tests)
	if diff := cmp.Diff(tests, documented); diff != "" {
		t.Errorf("rows of %s (-tests +rows):\n%s", document, diff)
	}
}

// test matches the tests of topologies.
var test = regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)

// item matches a row, its test and its block of states, finding an ID in a row, and convention the
// states that hold unless a row has others.
var (
	item       = regexp.MustCompile("(?m)^- (.*) `(Test\\w+)`$(?:\n\n  ```text\n((?:  .*\n)+?)  ```$)?")
	finding    = regexp.MustCompile("`([a-z]+(?:-[a-z]+)+)`")
	convention = regexp.MustCompile("(?s)```text\n(.*?)\n```")
)

// rows parses the document's lists. A row without a state follows the convention. The findings of
// check are after the word finding.
func rows(t *testing.T) []row {
	t.Helper()
	text, err := os.ReadFile(document)
	must(t, err)
	usual := convention.FindSubmatch(text)
	if usual == nil {
		t.Fatalf("%s has no convention", document)
	}
	var all []row
	for _, m := range item.FindAllStringSubmatch(string(text), -1) {
		_, found, _ := strings.Cut(m[1], " finding")
		r := row{test: m[2], findings: ids(found), states: strings.Split(string(usual[1]), "\n")}
		if m[3] != "" {
			r.states = nil
			for line := range strings.Lines(m[3]) {
				r.states = append(r.states, strings.TrimSpace(line))
			}
		}
		slices.Sort(r.findings)
		slices.Sort(r.states)
		all = append(all, r)
	}
	return all
}

// ids returns the IDs of findings in a text.
func ids(text string) []string {
	var all []string
	for _, m := range finding.FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	return all
}

// expectStates compares the services' states with the test's row. The message names a moved
// VIP only after the service's own request to it.
func (s *testbed) expectStates() {
	s.t.Helper()
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
		// These hosts lack the files with the API's name, so they accept other names than a cluster.
		message, _, _ := strings.Cut(condition.Message, "; accepts challenges for ")
		state := condition.Reason + ": " + message
		seen[strings.ReplaceAll(state, n.KeepalivedConfig(), "/etc/keepalived/keepalived.conf")] = true
	}
	return slices.Sorted(maps.Keys(seen)), nil
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
