// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

const (
	ruleFile = "rules.yaml" // as rules.test.yaml names it
	testFile = "rules.test.yaml"
	runbooks = "https://github.com/http01-proxyd/http01-proxyd/blob/main/docs/runbooks/"
)

type rule struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

type ruleGroups struct {
	Groups []struct {
		Name  string `json:"name"`
		Rules []rule `json:"rules"`
	} `json:"groups"`
}

// ruleSpec returns the spec of the PrometheusRule, the format of Prometheus and promtool.
func ruleSpec(t *testing.T) []byte {
	t.Helper()
	var object struct {
		Spec json.RawMessage `json:"spec"`
	}
	must(t, yaml.Unmarshal(shippedFile(t, "prometheusrule.yaml"), &object))
	spec, err := yaml.JSONToYAML(object.Spec)
	must(t, err)
	return spec
}

func rules(t *testing.T) []rule {
	t.Helper()
	var groups ruleGroups
	must(t, yaml.Unmarshal(ruleSpec(t), &groups))
	var all []rule
	for _, g := range groups.Groups {
		all = append(all, g.Rules...)
	}
	return all
}

func promtool(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "promtool", args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// TestRules holds that the rules are valid and pass their tests.
func TestRules(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, ruleFile), ruleSpec(t), 0o600))
	tests, err := os.ReadFile(testFile)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, testFile), tests, 0o600))
	t.Log(promtool(t, dir, "check", "rules", "--lint=all", "--lint-fatal", ruleFile))
	t.Log(promtool(t, dir, "test", "rules", testFile))
}

// TestEveryAlertFiresAndResolves holds that each alert fires and resolves in a test of
// rules.test.yaml.
func TestEveryAlertFiresAndResolves(t *testing.T) {
	text, err := os.ReadFile(testFile)
	must(t, err)
	var file struct {
		Tests []struct {
			Cases []struct {
				Alert    string `json:"alertname"`
				Expected []struct {
					Labels map[string]string `json:"exp_labels"`
				} `json:"exp_alerts"`
			} `json:"alert_rule_test"`
		} `json:"tests"`
	}
	must(t, yaml.Unmarshal(text, &file))
	type identity struct{ alert, severity string }
	done := map[identity]bool{}
	for _, test := range file.Tests {
		fired := map[identity]bool{}
		for _, c := range test.Cases {
			now := map[identity]bool{}
			for _, e := range c.Expected {
				now[identity{c.Alert, e.Labels["severity"]}] = true
			}
			for one := range fired {
				if one.alert == c.Alert && !now[one] {
					done[one] = true
				}
			}
			for one := range now {
				fired[one] = true
			}
		}
	}
	all := rules(t)
	for _, r := range all {
		if !done[identity{r.Alert, r.Labels["severity"]}] {
			t.Errorf("%s of severity %s does not fire and resolve in any test", r.Alert, r.Labels["severity"])
		}
	}
	if len(all) < 8 {
		t.Errorf("%d alerts, want more", len(all))
	}
}

// TestRunbooks holds that each alert has a summary, a description, a page and a row in the
// list of pages, and that each page of an alert has an alert and the same sections.
func TestRunbooks(t *testing.T) {
	index, err := os.ReadFile(filepath.Join(repository, "docs/runbooks/README.md"))
	must(t, err)
	want := map[string]bool{}
	for _, r := range rules(t) {
		page := r.Alert + ".md"
		want[page] = true
		row := "- [`" + r.Alert + "`](" + page + "): " + r.Labels["severity"] + "\n"
		if !strings.Contains(string(index), row) {
			t.Errorf("docs/runbooks/README.md has no row %s", row)
		}
		if !slices.Contains([]string{"warning", "critical"}, r.Labels["severity"]) {
			t.Errorf("%s has severity %q", r.Alert, r.Labels["severity"])
		}
		for _, name := range []string{"summary", "description"} {
			if r.Annotations[name] == "" {
				t.Errorf("%s has no %s", r.Alert, name)
			}
		}
		if address := runbooks + page; r.Annotations["runbook_url"] != address {
			t.Errorf("%s: runbook_url is %s, want %s", r.Alert, r.Annotations["runbook_url"], address)
		}
	}
	files, err := filepath.Glob(filepath.Join(repository, "docs/runbooks/HTTP01*.md"))
	must(t, err)
	got := map[string]bool{}
	for _, file := range files {
		page := filepath.Base(file)
		got[page] = true
		text, err := os.ReadFile(file)
		must(t, err)
		var sections []string
		for _, m := range regexp.MustCompile(`(?m)^##? (.*)$`).FindAllStringSubmatch(string(text), -1) {
			sections = append(sections, m[1])
		}
		expected := []string{strings.TrimSuffix(page, ".md"), "Meaning", "Impact", "Diagnosis", "Mitigation", "Verification"}
		if diff := cmp.Diff(expected, sections); diff != "" {
			t.Errorf("%s (-want +got):\n%s", page, diff)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("pages (-alerts +files):\n%s", diff)
	}
}

// TestRulesUseKnownNames holds that the rules and the dashboard use existing states,
// outcomes and clients.
func TestRulesUseKnownNames(t *testing.T) {
	known := map[string]bool{}
	for _, file := range []string{"pkg/report/condition.go", "pkg/report/traffic.go", "pkg/report/challenge.go"} {
		text, err := os.ReadFile(filepath.Join(repository, filepath.FromSlash(file)))
		must(t, err)
		for _, m := range regexp.MustCompile(
			`(?m)^\s+\w+\s+(?:Reason|Outcome|Rejection|ClientKind)?\s*=\s*"([^"]+)"`).FindAllStringSubmatch(string(text), -1) {
			known[m[1]] = true
		}
	}
	label := regexp.MustCompile(`\b(?:reason|outcome|client)(?:=~|!~|!=|=)\\?"([^"\\]+)\\?"`)
	texts := append([]string{}, queries(t)...)
	for _, r := range rules(t) {
		texts = append(texts, r.Expr, r.Annotations["description"])
	}
	seen := 0
	for _, text := range texts {
		for _, m := range label.FindAllStringSubmatch(text, -1) {
			for value := range strings.SplitSeq(m[1], "|") {
				seen++
				if value != "%q" && !known[value] {
					t.Errorf("unknown reason, outcome or client %q: %s", value, text)
				}
			}
		}
	}
	if seen < 20 {
		t.Errorf("%d names found, want at least 20", seen)
	}
}
