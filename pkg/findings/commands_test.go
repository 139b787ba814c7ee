// SPDX-License-Identifier: Apache-2.0

package findings

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFillCommand(t *testing.T) {
	t.Parallel()
	values := Values{
		"vip": "2001:db8::5", "link": "br-ex", "path": "/etc/a b'c", "empty": "", "beep": "a\ab", "option": "-x",
		"kind": "Issuer", "issuer": "--server=https://example.com/",
	}
	for template, want := range map[string]string{
		"ip address delete {vip} dev {link}":         "ip address delete 2001:db8::5 dev br-ex",
		"ls -l {path}":                               `ls -l '/etc/a b'\''c'`,
		"ls -l {option}":                             "",
		"ls --file={option}":                         "ls --file='-x'",
		"oc get {kind} {issuer} -o yaml":             "",
		"sh -c 'ls {vip}'; ls {path}":                `sh -c 'ls 2001:db8::5'; ls '/etc/a b'\''c'`,
		"sh -c 'ls {path}'":                          "",
		"ls {unknown}":                               "",
		"ls {empty}":                                 "",
		"ls {beep}":                                  "",
		`oc get x -o jsonpath='{.spec.a}{"\n"}'`:     `oc get x -o jsonpath='{.spec.a}{"\n"}'`,
		`oc patch x --patch='{"a":{"b":"{link}"}}'`:  `oc patch x --patch='{"a":{"b":"br-ex"}}'`,
		`awk '{gsub(/x/, " ")}' ; echo "${mac:?no}"`: `awk '{gsub(/x/, " ")}' ; echo "${mac:?no}"`,
	} {
		got, complete := FillCommand(template, values)
		if got != want || complete != (want != "") {
			t.Errorf("%s: %q, complete: %v; want %q", template, got, complete, want)
		}
	}
}

// TestHasCommand holds that a workstation runs no command of a node that its entry does not contain.
func TestHasCommand(t *testing.T) {
	t.Parallel()
	e := Entry{Commands: []string{"oc describe mcp {pool}", `oc patch x --patch='{"a":"{name}","b":"{name}"}'`, "oc http01 check"}}
	for command, want := range map[string]bool{
		"oc describe mcp master":                            true,
		"oc describe mcp ":                                  false,
		"oc describe mcp master --kubeconfig=x":             false,
		"oc describe mcp --kubeconfig=x":                    false,
		"oc describe mcp master; reboot":                    false,
		"oc describe mcp $(reboot)":                         false,
		"oc describe mcp 'a b'":                             false,
		"oc http01 check":                                   true,
		"oc http01 check -v":                                false,
		"oc delete node m0":                                 false,
		`oc patch x --patch='{"a":"api.x","b":"api.x"}'`:    true,
		`oc patch x --patch='{"a":"api.x","b":""}'`:         false,
		`oc patch x --patch='{"a":"a","c":"","b":"api"}'`:   false,
		`oc patch x --patch='{"a":"a'$(id)'","b":"api.x"}'`: false,
	} {
		if got := e.HasCommand(command); got != want {
			t.Errorf("%s: %v", command, got)
		}
	}
}

// TestEveryProblemHasCommands: a problem without a command is one that no command on a node or a workstation
// can show or fix.
func TestEveryProblemHasCommands(t *testing.T) {
	t.Parallel()
	ofTheTrace := "pkg/diagnose/trace knows the rule, and prints the command that lets packets pass it"
	without := map[ID]string{
		PacketDropped: ofTheTrace, PacketNotRedirected: ofTheTrace, ReplyDropped: ofTheTrace, LocalTrafficBlocked: ofTheTrace,
		VIPsUserManaged: "the load balancer is a device outside the cluster",
	}
	for _, e := range All() {
		reason, excepted := without[e.ID]
		delete(without, e.ID)
		if has := len(e.Commands) > 0; e.Level == Problem && has == excepted {
			t.Errorf("%s: %d commands, exception: %q", e.ID, len(e.Commands), reason)
		}
	}
	if len(without) > 0 {
		t.Errorf("exceptions without an entry: %v", without)
	}
}

// TestCurlPrintsErrors: a quiet curl prints nothing about a refused connection, which is the result that matters.
func TestCurlPrintsErrors(t *testing.T) {
	t.Parallel()
	for _, e := range All() {
		for _, command := range e.Commands {
			if strings.HasPrefix(command, "curl ") && !strings.HasPrefix(command, "curl -sSi ") {
				t.Errorf("%s: %q, want curl -sSi", e.ID, command)
			}
		}
	}
}

// samples are values of all placeholders in commands.
func samples() Values {
	return Values{
		"port": "8888", "unit": "otelcol.service", "pod": "8f1f7c1e-33a4-4b0a-9d1c-0d9a3a0b7f11", "pid": "4711",
		"path": "/etc/http01-proxyd/config.yaml", "own": "/etc/http01-proxyd/config.yaml",
		"file": "/etc/http01-proxyd/config.yaml", "dir": "/etc/microshift",
		"manifest": "/etc/kubernetes/manifests/keepalived.yaml", "manifests": "/etc/kubernetes/manifests",
		"name": "api.cluster.example.com", "server": "192.0.2.53", "type": "AAAA", "source": "192.0.2.9",
		"address":   "192.0.2.5",
		"filtering": "br-ex", "failed": "http01-proxyd", "link": "br-ex", "vip": "2001:db8::5",
		"table": "198", "endpoint": "[2001:db8::5]:80", "cause": "route-missing", "router": "192.0.2.6:443",
		"node":   "master-0",
		"secret": "api-certificate", "namespace": "openshift-config", "certificate": "api-certificate",
		"kind": "ClusterIssuer", "issuer": "letsencrypt", "request": "api-certificate-1", "order": "api-certificate-1-2",
		"token": "evaGxfADs6pSRb2LAv9IZf",
		"pool":  "master", "stream": "rhel-10", "config": "98-master-x", "policy": "rendered/10-policy",
	}
}

// TestCommandsParse runs a real shell on each command, with programs that print their arguments. Nothing else
// runs. Each patch is JSON, and each option of oc is one that it knows.
func TestCommandsParse(t *testing.T) {
	t.Parallel()
	verbs := map[string][]string{
		"api-resources": {"--api-group", "-o"}, "apply": {"-f", "-n"},
		"get":      {"-A", "-n", "-l", "-o", "--field-selector", "--show-managed-fields"},
		"patch":    {"-n", "--type", "--patch", "--subresource"},
		"describe": {"-A", "-n"}, "logs": {"-n", "--tail"}, "debug": {"--"}, "wait": {"--for", "--timeout"},
		"edit": {"-n"}, "delete": {"-n"}, "http01": {"--name", "--token"},
	}
	for _, e := range All() {
		for _, template := range e.Commands {
			command, complete := FillCommand(template, samples())
			if !complete {
				t.Errorf("%s: no sample for %q", e.ID, template)
				continue
			}
			for _, args := range recordOC(t, command) {
				flags, known := verbs[args[0]]
				if !known {
					t.Errorf("%s: oc %q", e.ID, args)
				}
				for _, arg := range args[1:] {
					flag, value, _ := strings.Cut(arg, "=")
					if flag == "--" {
						break // a command of the host follows
					}
					if strings.HasPrefix(flag, "-") && !slices.Contains(flags, flag) {
						t.Errorf("%s: oc %s has no option %s", e.ID, args[0], flag)
					}
					if flag == "--patch" && !json.Valid([]byte(value)) {
						t.Errorf("%s: the patch is not JSON: %s", e.ID, value)
					}
				}
			}
			if e.Check != PreflightCheck && strings.HasPrefix(command, "oc ") && !e.HasCommand(command) {
				t.Errorf("%s: the administrator's tool rejects %q", e.ID, command)
			}
		}
	}
}

// recordOC runs a command in a shell that finds no program but these, and returns the arguments of each oc.
func recordOC(t *testing.T, command string) (calls [][]string) {
	t.Helper()
	dir := t.TempDir()
	log := filepath.Join(dir, "log")
	// "oc get certificate" prints a line for renewNow, "oc get proxy" a list of hosts, and "oc get certmanager…"
	// overrides without the setting.
	const oc = `#!/bin/sh
for a; do printf '%s\037' "$a"; done >>"$LOG"; printf '\036' >>"$LOG"
[ "$2" != certificate ] || printf 'NAMESPACE NAME NAMES\nns cert [other.example.com api.cluster.example.com]\n'
[ "$2" != proxy ] || echo .internal.example.com
[ "$1 $2" != 'get certmanager.operator.openshift.io' ] || printf '["--v=2","--feature-gates=A=true"]'
`
	if err := os.WriteFile(filepath.Join(dir, "oc"), []byte(oc), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, tool := range []string{"awk", "sed", "grep", "date", "cut"} {
		path, err := exec.LookPath(tool)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(dir, tool)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "sh"), []byte("#!/bin/sh\n"), 0o755); err != nil { // not apply.sh
		t.Fatal(err)
	}
	check := exec.CommandContext(t.Context(), "/bin/sh", "-n", "-c", command)
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("%s: %v: %s", command, err, out)
	}
	if !strings.HasPrefix(command, "oc ") {
		return nil // it would change this machine
	}
	run := exec.CommandContext(t.Context(), "/bin/sh", "-c", command)
	run.Dir = dir
	run.Env = []string{"PATH=" + dir, "LOG=" + log}
	if out, err := run.CombinedOutput(); err != nil && !strings.Contains(command, "| grep") {
		t.Errorf("%s: %v: %s", command, err, out)
	}
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	for call := range strings.SplitSeq(strings.TrimSuffix(string(text), "\x1e"), "\x1e") {
		calls = append(calls, strings.Split(strings.TrimSuffix(call, "\x1f"), "\x1f"))
	}
	return calls
}

// TestAddFeatureGate: the overrides keep their other arguments and feature gates.
func TestAddFeatureGate(t *testing.T) {
	t.Parallel()
	calls := recordOC(t, addFeatureGate)
	want := `--patch={"spec":{"unsupportedConfigOverrides":{"controller":{"args":` +
		`["--v=2","--feature-gates=ACMEHTTP01IngressPathTypeExact=false,A=true"]}}}}`
	if len(calls) != 2 || calls[1][len(calls[1])-1] != want {
		t.Errorf("%q", calls)
	}
}

// TestRenewCommand holds that the command of an expired certificate renews each Certificate with the name, and no
// other.
func TestRenewCommand(t *testing.T) {
	t.Parallel()
	f := New(CertificateExpired, samples())
	calls := recordOC(t, f.Commands[len(f.Commands)-1])
	if len(calls) != 2 {
		t.Fatalf("%q", calls)
	}
	got := slices.DeleteFunc(calls[1], func(a string) bool { return strings.HasPrefix(a, "--patch=") })
	want := []string{"patch", "certificate", "cert", "-n", "ns", "--subresource=status", "--type=merge"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	other := samples().With("name", "example.com")
	if calls := recordOC(t, New(CertificateExpired, other).Commands[2]); len(calls) != 1 {
		t.Errorf("%q", calls)
	}
}
