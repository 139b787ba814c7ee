// SPDX-License-Identifier: Apache-2.0

package nodes_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/nodes"
)

// long is a timeout that no test reaches.
const long = time.Minute

// installOC puts a script into PATH as oc.
func installOC(t *testing.T, script string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "oc"), []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":/usr/bin:/bin")
	return dir
}

const (
	twoNodes = `{"kind": "List", "items": [
{"metadata": {"name": "m1"}, "status": {"conditions": [{"type": "Ready", "status": "False"}]}},
{"metadata": {"name": "m0"}, "status": {"conditions": [{"type": "Other", "status": "Unknown"}, {"type": "Ready", "status": "Unknown",
"message": "Kubelet stopped posting\u001b[31m", "lastTransitionTime": "2026-01-02T03:04:05Z"}]}}]}`
	noNodes = `{"kind": "List", "items": []}`
)

// TestList: the nodes and the arguments of oc.
func TestList(t *testing.T) {
	const (
		connection = "; if the API does not respond, run http01-proxyd on the control-plane nodes, for example over SSH"
		remediate  = `: check the connection with "oc get nodes"` + connection
	)
	m0 := nodes.Node{
		Name:   "m0",
		Absent: "the kubelet does not respond since 2026-01-02T03:04:05Z: Kubelet stopped posting [31m",
	}
	for name, tt := range map[string]struct {
		script    string
		oc        nodes.OC
		selection nodes.Selection
		want      []nodes.Node
		calls     string
		err       string
	}{
		"control plane": {
			"echo '" + twoNodes + "'",
			nodes.OC{},
			nodes.Selection{},
			[]nodes.Node{m0, {Name: "m1"}},
			"get nodes --output=json --selector=node-role.kubernetes.io/control-plane\n", "",
		},
		"one name, another cluster": {
			`echo '{"kind": "Node", "metadata": {"name": "m0"}}'`,
			nodes.OC{Kubeconfig: "k", Context: "c"},
			nodes.Selection{Names: []string{"m0"}},
			[]nodes.Node{{Name: "m0"}},
			"get --kubeconfig=k --context=c nodes --output=json m0\n", "",
		},
		"no node has the label": {
			"echo '" + noNodes + "'",
			nodes.OC{},
			nodes.Selection{Selector: "a=b"},
			nil, "get nodes --output=json --selector=a=b\n",
			`no node matches the selection: "oc get nodes --show-labels" prints the labels for --selector`,
		},
		"no connection": {
			"printf 'E1 a\\nThe connection to the server\\033[31m was refused\\n' >&2; exit 1",
			nodes.OC{},
			nodes.Selection{Selector: "a"},
			nil, "get nodes --output=json --selector=a\n",
			"cannot list the nodes: E1 a / The connection to the server [31m was refused" + remediate,
		},
		"expired login": {
			"echo 'error: You must be logged in to the server (Unauthorized)' >&2; exit 1",
			nodes.OC{},
			nodes.Selection{Selector: "a"},
			nil, "get nodes --output=json --selector=a\n",
			`cannot list the nodes: error: You must be logged in to the server (Unauthorized): log in again with "oc login"`,
		},
		"unknown node": {
			`echo 'Error from server (NotFound): nodes "m9" not found' >&2; exit 1`,
			nodes.OC{},
			nodes.Selection{Names: []string{"m9"}},
			nil, "get nodes --output=json m9\n",
			`cannot list the nodes: Error from server (NotFound): nodes "m9" not found: "oc get nodes" lists the nodes`,
		},
		"no message": {
			"exit 7",
			nodes.OC{},
			nodes.Selection{Selector: "a"},
			nil, "get nodes --output=json --selector=a\n",
			"cannot list the nodes: exit status 7",
		},
		"no list": {
			"echo hello",
			nodes.OC{},
			nodes.Selection{Selector: "a"},
			nil,
			"get nodes --output=json --selector=a\n",
			"cannot list the nodes: oc printed no list: invalid character 'h' looking for beginning of value",
		},
		"wrong names": {
			`echo '{"items": [{"metadata": {"name": "-f"}}]}'`,
			nodes.OC{},
			nodes.Selection{Selector: "a"},
			nil,
			"get nodes --output=json --selector=a\n", `cannot list the nodes: oc printed a node with the name "-f"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := installOC(t, `echo "$*" >> "${0%/*}/calls"`+"\n"+tt.script)
			got, err := tt.oc.List(t.Context(), long, tt.selection)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if text := fmt.Sprint(err); (tt.err != "" || err != nil) && text != tt.err {
				t.Errorf("error %s, want %s", text, tt.err)
			}
			calls, err := os.ReadFile(filepath.Join(dir, "calls"))
			if err != nil || string(calls) != tt.calls {
				t.Errorf("%v, calls:\n%swant:\n%s", err, calls, tt.calls)
			}
		})
	}
}

// TestNoAnswer: oc that hangs, and oc that is not installed.
func TestNoAnswer(t *testing.T) {
	installOC(t, "exec sleep 600")
	_, err := nodes.OC{}.List(t.Context(), 50*time.Millisecond, nodes.Selection{})
	if want := `cannot list the nodes: no answer within 50ms: check the connection with "oc get nodes"`; err == nil ||
		!strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
	t.Setenv("PATH", t.TempDir())
	_, err = nodes.OC{}.List(t.Context(), long, nodes.Selection{})
	if want := `cannot list the nodes: cannot find oc: exec: "oc": executable file not found in $PATH: install the OpenShift CLI, and add its folder to PATH`; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// TestRunOnEach: the document of each node, or why it is missing.
func TestRunOnEach(t *testing.T) {
	const byHand = "Run the command by hand: oc debug node/%s -- chroot /host http01-proxyd status -o json"
	dir := installOC(t, `
case "$*" in
*node/good*) echo '{"a": 1}'; echo "$*" > "${0%/*}/arguments" ;;
*node/exit*) echo '{"a": 2}'; echo 'error: non-zero exit code from debug container' >&2; exit 1 ;;
*node/noise*) printf 'a warning\n{"b":\n{"a": 3}\nthe end\n' ;;
*node/empty*) ;;
*node/fails*) printf 'Starting pod/m0-debug ...\nTo use host binaries, run chroot\nError: pods is \033[31mforbidden\n\nRemoving debug pod ...\n' >&2; exit 1 ;;
*node/bare*) exit 3 ;;
*node/error*) printf 'Starting pod/m0-debug ...\n{\n  "kind": "Error",\n  "message": "m"\n}\nerror: non-zero exit code\n' >&2; exit 1 ;;
*node/missing*) echo "chroot: failed to run command 'http01-proxyd': No such file or directory"; exit 1 ;;
*node/endless*) trap 'touch "${0%/*}/interrupted"; exit 1' INT; head -c 40000000 /dev/zero; while :; do sleep 0.01; done ;;
esac`)
	want := map[string]nodes.Output{
		"good":  {Document: []byte(`{"a": 1}`)},
		"exit":  {Document: []byte(`{"a": 2}`)},
		"noise": {Document: []byte(`{"a": 3}`)},
		"empty": {Problem: "no JSON document", Remediation: byHand},
		"fails": {
			Problem:     "no JSON document: Error: pods is  [31mforbidden",
			Remediation: "Log in as a user who may debug nodes, such as a cluster administrator.",
		},
		"bare": {Problem: "no JSON document: exit status 3", Remediation: byHand},
		// Without a terminal, oc has the standard error of the command.
		"error": {Document: []byte("{\n  \"kind\": \"Error\",\n  \"message\": \"m\"\n}")},
		"missing": {
			Problem:     "no JSON document: chroot: failed to run command 'http01-proxyd': No such file or directory",
			Remediation: byHand,
		},
		"endless": {Problem: "the output is longer than 1048576 bytes", Remediation: byHand},
		"absent":  {Problem: "gone", Remediation: "Check the node: oc describe node absent."},
	}
	var all []nodes.Node
	for name := range want {
		n := nodes.Node{Name: name}
		if name == "absent" {
			n.Absent = "gone"
		}
		all = append(all, n)
	}
	got := nodes.OC{Context: "c"}.RunOnEach(t.Context(), all, long, "http01-proxyd", "status", "-o", "json")
	for i, n := range all {
		expected := want[n.Name]
		expected.Node, expected.Received = n.Name, got[i].Received
		if expected.Remediation == byHand {
			expected.Remediation = fmt.Sprintf(byHand, n.Name)
		}
		if diff := cmp.Diff(expected, got[i]); diff != "" || got[i].Received.IsZero() {
			t.Errorf("%s (-want +got):\n%s", n.Name, diff)
		}
	}
	arguments, err := os.ReadFile(filepath.Join(dir, "arguments"))
	if want := "debug --context=c --quiet node/good -- chroot /host http01-proxyd status -o json\n"; err != nil ||
		string(arguments) != want {
		t.Errorf("%v, arguments %s, want %s", err, arguments, want)
	}
	if _, err := os.Stat(filepath.Join(dir, "interrupted")); err != nil {
		t.Errorf("oc was not interrupted, and cannot remove its pod: %v", err)
	}
}

// TestTimeout: a node that does not answer does not hold up the others, and oc can
// remove its pod.
func TestTimeout(t *testing.T) {
	dir := installOC(t, `
case "$*" in
*node/good*) echo '{}' ;;
*) trap 'touch "${0%/*}/interrupted"; exit 1' INT; echo 'Waiting for a container' >&2; while :; do sleep 0.01; done ;;
esac`)
	got := nodes.OC{}.RunOnEach(t.Context(), []nodes.Node{{Name: "slow"}, {Name: "good"}}, time.Second, "true")
	want := "Increase --timeout if the image of the debug pod is not on the node yet, or run the command by hand: oc " +
		"debug node/slow -- chroot /host true"
	if got[0].Problem != "no output within 1s: Waiting for a container" || got[0].Remediation != want ||
		string(got[1].Document) != "{}" {
		t.Errorf("%+v", got)
	}
	if _, err := os.Stat(filepath.Join(dir, "interrupted")); err != nil {
		t.Errorf("oc was not interrupted: %v", err)
	}
}

// TestInterrupted: no node is reported as failed because the command was stopped.
func TestInterrupted(t *testing.T) {
	installOC(t, "exec sleep 600")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	got := nodes.OC{}.RunOnEach(ctx, []nodes.Node{{Name: "m0"}}, long, "true")
	if got[0].Problem != "interrupted" {
		t.Errorf("%+v", got)
	}
}
