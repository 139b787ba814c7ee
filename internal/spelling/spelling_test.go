// SPDX-License-Identifier: Apache-2.0

package spelling_test

import (
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/internal/spelling"
)

func TestNearest(t *testing.T) {
	t.Parallel()
	names := []string{"status", "check", "trace", "ruleset", "customDeployment", "json"}
	for word, want := range map[string]string{
		"stauts": "status", "chek": "check", "rulset": "ruleset", "Status": "status", "customdeployment": "customDeployment",
		"jsn": "json", "rule": "ruleset", "deploy": "", "x": "", "": "", "xml": "",
		"statusses":                "", // three more
		strings.Repeat("a", 1<<20): "",
	} {
		if got := spelling.Nearest(word, names); got != want {
			t.Errorf("%.20q: %q, want %q", word, got, want)
		}
	}
}
