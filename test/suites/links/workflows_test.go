// SPDX-License-Identifier: Apache-2.0

package links

import (
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

var (
	uses   = regexp.MustCompile(`(?m)^\s*(?:- )?uses:\s*(.*)$`)
	pinned = regexp.MustCompile(`^[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+`)
)

// TestWorkflows: each action is pinned by a commit, with its release in a comment. The token of a
// workflow can only read. A job that writes declares it, and pull requests get no secrets.
func TestWorkflows(t *testing.T) {
	checked := 0
	for _, file := range tracked(t) {
		if path.Dir(file) != ".github/workflows" {
			continue
		}
		checked++
		text, err := os.ReadFile(filepath.Join(repository, file))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range uses.FindAllStringSubmatch(string(text), -1) {
			if !strings.HasPrefix(m[1], "./") && !pinned.MatchString(m[1]) {
				t.Errorf("%s: %s is not pinned as NAME@COMMIT # v1.2.3", file, m[1])
			}
		}
		var workflow struct {
			On          map[string]any
			Permissions map[string]string
			Jobs        map[string]struct {
				Permissions map[string]string
			}
		}
		if err := yaml.Unmarshal(text, &workflow); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if !maps.Equal(workflow.Permissions, map[string]string{"contents": "read"}) {
			t.Errorf("%s: the permissions of all jobs are %v, want contents: read", file, workflow.Permissions)
		}
		for _, event := range []string{"pull_request_target", "workflow_run"} {
			if _, found := workflow.On[event]; found {
				t.Errorf("%s: %s gives the token and the secrets to unreviewed code", file, event)
			}
		}
		want := expectedWrites()[path.Base(file)]
		for name, job := range workflow.Jobs {
			for scope, access := range job.Permissions {
				if access == "write" && !strings.Contains(want, name+":"+scope+" ") {
					t.Errorf("%s: job %s may write %s", file, name, scope)
				}
			}
		}
		if _, pull := workflow.On["pull_request"]; pull && strings.Contains(string(text), "secrets.") {
			t.Errorf("%s gives secrets to pull requests", file)
		}
	}
	if checked < 3 {
		t.Errorf("%d workflows found, want at least 3", checked)
	}
}

// expectedWrites returns what the jobs of each workflow may write, as JOB:SCOPE.
func expectedWrites() map[string]string {
	return map[string]string{
		"release.yml": "release:contents release:id-token release:attestations ",
		"codeql.yml":  "analyze:security-events ",
	}
}
