// SPDX-License-Identifier: Apache-2.0

package conntrack

import (
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
)

func TestJudge(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		before, after stats
		id            findings.ID
		message       string
	}{
		"room":          {stats{count: 89, max: 100}, stats{count: 89, max: 100}, "", "89 of 100"},
		"room by now":   {stats{count: 1, max: 100, dropped: 7}, stats{count: 1, max: 100, dropped: 7}, "", "dropped 7 packets"},
		"little room":   {stats{count: 1, max: 100}, stats{count: 90, max: 100}, findings.ConntrackFull, "90 of 100"},
		"none":          {stats{count: 100, max: 100, dropped: 7}, stats{count: 100, max: 100, dropped: 9}, findings.ConntrackDrops, "2 within 500ms"},
		"without bound": {stats{count: 1}, stats{count: 1}, "", "1 of 0"},
	} {
		got := judge(tt.before, tt.after)
		var id findings.ID
		text := got.Text
		for _, f := range got.Findings {
			id, text = f.ID, f.Message
		}
		if id != tt.id || !strings.Contains(text, tt.message) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
