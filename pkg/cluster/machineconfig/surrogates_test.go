// SPDX-License-Identifier: Apache-2.0

package machineconfig_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v4"

	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/machineconfig"
)

// TestReplaceSurrogates: a YAML parser reads the same characters as a JSON parser.
func TestReplaceSurrogates(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`"\ud83d\ude00"`, `"\uD83D\uDE00 and \u00e9 \\ud83d\\ude00"`, `"a\\\ud83d\ude00"`,
		`"\ud83d"`, `"\ude00"`, `"\ude00\ud83d"`, `"\ud83d\ud83d\ude00"`, `"\ud83d\n"`, `"\ud83d\u0041"`, `"\ud83dude00"`,
		`{"\ud83d\ude00": ["\"\/\b\f\n\r\t\u007f"]}`, `1`, `"😀"`,
	} {
		var want, got any
		must(t, json.Unmarshal([]byte(text), &want))
		if f, is := want.(float64); is {
			want = int(f)
		}
		if err := yaml.Load(machineconfig.ReplaceSurrogates([]byte(text)), &got); err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if m, is := want.(map[string]any); is {
			want = m
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-JSON +YAML):\n%s", text, diff)
		}
	}
	for _, text := range []string{"a: \"\\ud83d\\ude00\"\n", `{"a": "\ud83d`, `\`, ""} {
		if got := string(machineconfig.ReplaceSurrogates([]byte(text))); got != text {
			t.Errorf("%q, which is no JSON, becomes %q", text, got)
		}
	}
}
