// SPDX-License-Identifier: Apache-2.0

package nodes_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/nodes"
)

// member begins the script of nodes that take part. Each line that a node reads is logged.
const member = `
name=${3#node/}; log=${0%/*}/$name
next() { read -r line && echo "$line" >> "$log"; }
started() { next; echo "{\"kind\":\"CheckStarted\",\"holds\":[$1]}"; }
traces() { next; echo '{"kind":"CheckTracing"}'; next; }
await() { while ! grep -q "$1" "${0%/*}/$2" 2>/dev/null; do sleep 0.01; done; }
result() { printf '{\n  "kind": "Check",\n  "node": "%s"\n}\n' "$name"; }
`

// TestRunCoordinated: which lines each node gets, and its document.
func TestRunCoordinated(t *testing.T) {
	const begin, holds, both = "begin\n", "begin\ntrace\ntest\nend\n", `"192.0.2.5", "2001:db8::5"`
	for name, tt := range map[string]struct {
		scripts map[string]string
		timeout time.Duration
		lines   map[string]string
		problem map[string]string
	}{
		"a holder and two others": {
			map[string]string{
				"m0": "started '" + both + "'; traces; next; result", "m1": "started; next; result",
				"m2": "started; next; await test m0; result",
			},
			long,
			map[string]string{"m0": holds, "m1": "begin\ntest\n", "m2": "begin\ntest\n"},
			nil,
		},
		"each family on another node: each tests the other's, so that both follow packets to the end of the time": {
			map[string]string{
				"m0": "started '\"192.0.2.5\"'; traces; next; result", "m1": "started '\"2001:db8::5\"'; traces; next; result",
			},
			long,
			map[string]string{"m0": holds, "m1": holds},
			nil,
		},
		"BGP: all hold": {
			map[string]string{"m0": "started '" + both + "'; traces; next; result", "m1": "started '" + both +
				"'; traces; next; result"},
			long,
			map[string]string{"m0": holds, "m1": holds},
			nil,
		},
		"no node holds a VIP": {
			map[string]string{"m0": "started; next; result", "m1": "started; next; result"},
			long,
			map[string]string{"m0": "begin\ntest\n", "m1": "begin\ntest\n"},
			nil,
		},
		"an earlier release, an oc that passes no standard input on, and one that cannot attach": {
			map[string]string{
				"m0": "started '" + both + "'; traces; next; result",
				"m1": `case "$*" in *--coordinated*) echo '{"kind": "Error", "message": "unknown flag --coordinated"}'; exit 2 ;; esac; result`,
				"m2": "read -r line < /dev/null; result",
				"m3": `case "$*" in *--tty=false*) echo 'error: container container-00 not found' >&2; exit 1 ;; esac; result`,
			},
			long,
			map[string]string{"m0": holds, "m1": "", "m2": "", "m3": ""},
			nil,
		},
		"one does not start": {
			map[string]string{
				"m0": "started '" + both + "'; traces; next; result",
				"m1": "trap 'exit 1' INT; while :; do sleep 0.01; done",
			},
			time.Second,
			map[string]string{"m0": holds, "m1": ""},
			map[string]string{"m1": "no output within 1s"},
		},
		"one ends after it has started": {
			map[string]string{"m0": "started '" + both + "'; exit 1", "m1": "started; next; result"},
			long,
			map[string]string{"m0": begin, "m1": "begin\ntest\n"},
			map[string]string{"m0": "no JSON document: "},
		},
		"one sends garbage and many events, never follows packets, and ignores the end": {
			map[string]string{
				"m0": `started '"192.0.2.5"'; started '"192.0.2.7"'; head -c 3000 /dev/zero; echo; echo '{"kind":"CheckTracing"'; for line in test end; do next; done; trap 'exit 1' INT; while :; do sleep 0.01; done`,
				"m1": "started; next; result",
			},
			4 * time.Second,
			map[string]string{"m0": holds, "m1": "begin\ntest\n"},
			map[string]string{"m0": "no output within 4s"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var script strings.Builder
			script.WriteString(member + "case $name in\n")
			all := make([]nodes.Node, 0, len(tt.scripts))
			for name, text := range tt.scripts {
				script.WriteString(name + ")\n" + text + "\n;;\n")
				all = append(all, nodes.Node{Name: name})
			}
			dir := installOC(t, script.String()+"esac\n")
			started := 0
			got := nodes.OC{}.RunCoordinated(t.Context(), all, tt.timeout, func(time.Duration) { started++ }, "check")
			for _, o := range got {
				document := strings.Contains(string(o.Document), `"Check"`) && strings.Contains(string(o.Document), o.Node)
				if problem := tt.problem[o.Node]; document != (problem == "") || !strings.HasPrefix(o.Problem, problem) {
					t.Errorf("%s: %q, document %s", o.Node, o.Problem, o.Document)
				}
				lines, _ := os.ReadFile(filepath.Join(dir, o.Node))
				if diff := cmp.Diff(tt.lines[o.Node], string(lines)); diff != "" {
					t.Errorf("%s has read (-want +got):\n%s", o.Node, diff)
				}
			}
			if started != 1 {
				t.Errorf("the start was reported %d times", started)
			}
		})
	}
}
