// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/cli"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// TestVerify runs the command with an oc that runs the script of a node here, with
// programs that print known outputs.
func TestVerify(t *testing.T) {
	programs := map[string]string{
		"oc": `case "$1 $2" in
"get nodes") echo '{"kind": "List", "items": [{"metadata": {"name": "master0"}}]}' ;;
"get clusterversion") printf 4.19.3 ;;
"get machineconfiguration") printf '/etc/http01-proxyd http01-proxyd.service http01-proxyd-install.service' ;;
"get infrastructure") printf https://api.ocp.example.com:6443 ;;
"debug --quiet") shift 6 && exec "$@" ;;
"run http01-verify-"*)
	echo "$2" >>PODS
	case "$*" in
	*'"nodeName":"master0"'*' -- curl -si --max-time 10 http://api.ocp.example.com/') printf 'HTTP/1.1 400 Bad Request\r\n\r\nOnly /.well-known/acme-challenge/* is allowed\n' ;;
	*) exit 1 ;;
	esac ;;
*) exit 1 ;;
esac`,
		"http01-proxyd": "cat <<'END'\n" + statusOf("Serving", "Held") + "\nEND",
		"ls":            `echo 'u:r:lib_t:s0 a'`,
		"systemctl":     `echo "# /etc/systemd/system/$2"`,
		"ps":            `echo "u:r:unconfined_service_t:s0 1 ? 0 http01-proxyd"`,
		"ausearch":      `exit 1`,
		"journalctl":    `echo "the image is installed"`,
		"ss":            `echo 'LISTEN 0 1 *:8888 *:* users:(("http01-proxyd",pid=1,fd=1))'`,
	}
	for name, tt := range map[string]struct {
		change map[string]string
		code   int
		want   []string
	}{
		"as expected": {nil, cli.OK, []string{"- OpenShift: 4.19.3\n- master0: ", "http01-proxyd v1.2.3, Serving, holds the API VIP\n", "| B5: a pod on the node with the VIP reaches the proxy | cluster | as expected |\n", `--overrides='{"apiVersion":"v1","spec":{"nodeName":"master0",`}},
		"another label": {
			map[string]string{"ls": `echo 'u:r:var_t:s0 a'`},
			cli.Unhealthy,
			[]string{"| B1: label of the remover | master0 | different |\n"},
		},
		"a standby": {
			map[string]string{"http01-proxyd": "cat <<'END'\n" + statusOf("Standby", "Standby") + "\nEND"},
			cli.Unknown,
			[]string{"| B4: the kernel keeps the table | master0 | not determined |\n", "    no node reports that it holds the API VIP\n"},
		},
		"the pod does not start": {
			map[string]string{"oc": strings.Replace(programs["oc"], `case "$*" in`, "echo 'the pod already exists' >&2; exit 1\n\tcase \"$*\" in", 1)},
			cli.Unknown,
			[]string{"| B5: a pod on the node with the VIP reaches the proxy | cluster | not determined |\n", "    oc run: the pod already exists\n"},
		},
		"no debug pod": {
			map[string]string{"oc": strings.Replace(programs["oc"], `shift 6 && exec "$@"`, "exit 1", 1)},
			cli.Unknown,
			[]string{"- master0: ", "| B8: no other program has the ports | master0 | not determined |\n"},
		},
		"a layered cluster": {
			map[string]string{
				"systemctl": `case "$1" in
show) echo 'ExecStart={ path=/usr/bin/http01-proxyd ; argv[]=/usr/bin/http01-proxyd run ; }' ;;
*) echo "No files found for $2." >&2; exit 1 ;;
esac`,
				"ls": "echo 'ls: cannot access: No such file or directory' >&2; exit 2", "journalctl": "exit 1",
				"oc": strings.Replace(programs["oc"], "/etc/http01-proxyd http01-proxyd.service http01-proxyd-install.service", "/etc/http01-proxyd", 1),
			},
			cli.OK,
			[]string{
				", Serving, the operating system image contains the binary, holds the API VIP\n", "| B1: label of the remover | master0 | as expected |\n",
				"| B2: installer or remover is loaded | master0 | as expected |\n", "| B6: first boot of a control-plane node | master0 | not applicable |\n",
				"| B7: the node disruption policy is in force | cluster | as expected |\n",
			},
		},
		"no machineconfiguration": {
			map[string]string{"oc": strings.Replace(programs["oc"], "printf '/etc/http01-proxyd http01-proxyd.service http01-proxyd-install.service'", "echo forbidden >&2; exit 1", 1)},
			cli.Unknown,
			[]string{"| B7: the node disruption policy is in force | cluster | not determined |\n", "    oc get: forbidden\n"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			installed := maps.Clone(programs)
			maps.Copy(installed, tt.change)
			pods := filepath.Join(dir, "pods")
			for program, text := range installed {
				must(t, os.WriteFile(filepath.Join(dir, program), []byte("#!/bin/sh\n"+strings.ReplaceAll(text, "PODS", pods)+"\n"), 0o700))
			}
			t.Setenv("PATH", dir+":/usr/bin:/bin")
			got := runLine(t, "", "verify")
			if got.code != tt.code || got.err != "" {
				t.Errorf("exit code %d, want %d: %s\n%s", got.code, tt.code, got.err, got.out)
			}
			for _, want := range tt.want {
				if !strings.Contains(got.out, want) {
					t.Errorf("no %q in\n%s", want, got.out)
				}
			}
			var document report.Verification
			again := runLine(t, "", "verify", "-o", "json")
			must(t, json.Unmarshal([]byte(again.out), &document))
			if again.code != tt.code || document.Kind != "Verification" || len(document.Nodes) != 1 || len(document.Facts) != 8 {
				t.Errorf("exit code %d\n%s", again.code, again.out)
			}
			names, _ := os.ReadFile(pods) // no pod without a holder
			if all := strings.Fields(string(names)); len(all) == 2 && all[0] == all[1] {
				t.Errorf("two pods have the name %s", all[0])
			}
		})
	}
}
