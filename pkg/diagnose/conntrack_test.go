// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
)

func TestSumDropped(t *testing.T) {
	t.Parallel()
	const head = "entries  clashres found new invalid ignore delete chainlength insert insert_failed drop early_drop icmp_error\n"
	for text, want := range map[string]uint64{
		head: 0,
		head + "0000abcd  0 0 0 0 0 0 0 0 0 0000000f 00000001 0\n0000abcd  0 0 0 0 0 0 0 0 0 00000010 00000001 0\n": 31,
		head + "0000abcd 0\n": 0, // cut off: an error
		"":                    0,
	} {
		got, err := sumDropped(strings.NewReader(text))
		if got != want || (err != nil) != strings.HasSuffix(text, "cd 0\n") {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
}

func TestJudgeConntrack(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		before, after conntrackStats
		id            findings.ID
		message       string
	}{
		"room":          {conntrackStats{count: 89, max: 100}, conntrackStats{count: 89, max: 100}, "", "89 of 100"},
		"room by now":   {conntrackStats{count: 1, max: 100, dropped: 7}, conntrackStats{count: 1, max: 100, dropped: 7}, "", "dropped 7 packets"},
		"little room":   {conntrackStats{count: 1, max: 100}, conntrackStats{count: 90, max: 100}, findings.ConntrackFull, "90 of 100"},
		"none":          {conntrackStats{count: 100, max: 100, dropped: 7}, conntrackStats{count: 100, max: 100, dropped: 9}, findings.ConntrackDrops, "2 within 500ms"},
		"without bound": {conntrackStats{count: 1}, conntrackStats{count: 1}, "", "1 of 0"},
	} {
		r := judgeConntrack(tt.before, tt.after)
		text := r.Text
		var id findings.ID
		for _, f := range r.Findings {
			id, text = f.ID, f.Message
		}
		if id != tt.id || !strings.Contains(text, tt.message) {
			t.Errorf("%s: %+v", name, r)
		}
	}
}
