// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v4"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/cli"
)

// TestYAMLHasSameContent: YAML has the content of JSON, and no character that is not
// printable.
func TestYAMLHasSameContent(t *testing.T) {
	t.Parallel()
	hostile := "hos\x1b[31mt\x1b]0;title\a\u009b2J\u0085\r\tA\u202eB\u2066C\u200bD\u2028E\u00adF\ufeffG\U000e0041H\U0010ffffI"
	document := map[string]any{
		"hostile": hostile, hostile: []any{hostile, hostile + "\n" + hostile}, "lines": "one\n two\n", "empty": []any{},
		"none":  map[string]any{},
		"texts": []any{"true", "1", "null", "~", "", " x", "- a", "a: b", "#", "2026-11-23", "'", `"`, `\u0041`, "é…"},
		"other": []any{true, 1.5, nil, 1e21, float64(1 << 53)},
	}
	var asYAML, asJSON strings.Builder
	for format, out := range map[string]*strings.Builder{cli.YAML: &asYAML, cli.JSON: &asJSON} {
		if err := cli.WriteDocument(out, format, document); err != nil {
			t.Fatal(err)
		}
		for _, c := range out.String() {
			if c != '\n' && !unicode.IsPrint(c) {
				t.Errorf("%s: %U is printed in\n%q", format, c, out)
			}
		}
	}
	var got any
	if err := yaml.Load([]byte(asYAML.String()), &got); err != nil {
		t.Fatalf("%v in\n%s", err, &asYAML)
	}
	text, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	var again any
	if err := json.Unmarshal(text, &again); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(any(document), again); diff != "" {
		t.Errorf("(-want +got):\n%s\n%s", diff, &asYAML)
	}
	if !strings.Contains(asYAML.String(), "\nlines: |\n") {
		t.Errorf("lines are not a block in\n%s", &asYAML)
	}
}
