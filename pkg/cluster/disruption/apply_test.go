// SPDX-License-Identifier: Apache-2.0

package disruption_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/disruption"
)

// fakeOC is oc with a cluster whose operator and nodes react late: the pool infra names the
// configuration b with the third read after a change, and its nodes have it with the fifth. After
// the call number $fault_at, the script is killed; or $fault_for calls from there fail, as while
// the API server answers 500 or 429.
const fakeOC = `#!/bin/sh
count() { # FILE: sets n to how often it was called
	n=0
	[ ! -e "$1" ] || read -r n <"$1"
	n=$((n + 1))
	echo "$n" >"$1"
}
count calls
call=$n
if [ "$fault" = fails ] && [ "$call" -ge "$fault_at" ] && [ "$call" -lt $((fault_at + fault_for)) ]; then
	echo "Error from server (InternalError): an error on the server" >&2
	exit 1
fi
case "$*" in
"apply -f ..")
	[ -e policy ] || echo "nodes would reboot" >damage
	if [ -e applied ]; then echo "a unchanged"; else echo "a configured"; fi
	echo "b unchanged"
	touch applied ;;
"apply "*policy.yaml) touch policy ;;
"apply "*) [ ! -e applied ] || echo "nodes would reboot" >damage; rm -f policy ;;
"get machineconfiguration "*)
	count observed
	[ ! -e policy ] || printf '3 %s\npath: /etc/a\nname: a.service\n' $((n > 2 ? 3 : 2)) ;;
"get machineconfigs 98-infra-http01-proxyd "*)
	[ ! -e applied ] || echo "98-infra-http01-proxyd http01-proxyd.service new"
	case $5 in
	a) echo "a http01-proxyd.service old" ;;
	b) echo "b http01-proxyd.service new" ;;
	esac ;;
"get machineconfigs "*) [ ! -e applied ] || echo machineconfig/98-infra-http01-proxyd ;;
"get mcp infra "*paused*) echo false ;;
"get mcp infra "*)
	wanted=a nodes=a
	if [ -e applied ]; then
		count reads
		[ "$n" -lt 3 ] || wanted=b
		[ "$n" -lt 5 ] || nodes=b
	fi
	case "$*" in *status*) echo "$wanted $nodes" ;; *) echo "$wanted" ;; esac ;;
"get mcp "*)
	count sources
	[ "$n" -gt 2 ] || echo pool/98-infra-http01-proxyd ;;
*) echo "unexpected: $*" >damage ;;
esac
[ "$fault-$fault_at" != "ends-$call" ] || kill -KILL 0
`

// cluster is a folder with fakeOC, its state and rendered files.
type cluster struct{ dir string }

func newCluster(t *testing.T) cluster {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "10-policy"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"oc": strings.Replace(fakeOC, "\n", "\ncd "+dir+"\n", 1), "sleep": "#!/bin/sh\n",
		"98-infra-http01-proxyd.yaml": "", disruption.ScriptFile: string(disruption.Script()),
		disruption.PolicyFile: "  - path: /etc/a\n  - name: a.service\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return cluster{dir}
}

// run runs the script with a fault, from the first call of oc on.
func (c cluster) run(t *testing.T, command, fault string, at, calls int) (out string, ok bool) {
	t.Helper()
	c.remove(t, "calls")
	cmd := exec.CommandContext(t.Context(), "sh", filepath.Join(c.dir, disruption.ScriptFile), command)
	cmd.Env = []string{
		"PATH=" + c.dir + ":/usr/bin:/bin", "TMPDIR=" + c.dir, "fault=" + fault, "fault_at=" + strconv.Itoa(at),
		"fault_for=" + strconv.Itoa(calls),
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // which fakeOC kills
	text, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(text), err == nil
}

func (c cluster) has(name string) bool {
	_, err := os.Stat(filepath.Join(c.dir, name))
	return err == nil
}

func (c cluster) remove(t *testing.T, name string) {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(c.dir, name)); err != nil {
		t.Fatal(err)
	}
}

// calls returns how often the last run called oc.
func (c cluster) calls(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(c.dir, "calls"))
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestInterruptedScript: the script ends after each of its calls of oc, or the API server fails
// for some calls. The nodes never change without the entries, no run reports a success too early,
// and the next run completes the work.
func TestInterruptedScript(t *testing.T) {
	t.Parallel()
	const success = "All nodes of the pool infra have the configuration "
	for command, test := range map[string]struct {
		prepare func(c cluster)
		check   func(c cluster, out string) (complete bool)
	}{
		"rollout": {
			func(cluster) {},
			func(c cluster, out string) bool {
				return c.has("policy") && c.has("applied") && strings.Contains(out, success+"b.")
			},
		},
		"release": {
			func(c cluster) {
				if err := os.WriteFile(filepath.Join(c.dir, "policy"), nil, 0o600); err != nil {
					t.Error(err)
				}
			},
			func(c cluster, _ string) bool { return !c.has("policy") },
		},
	} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			clean := newCluster(t)
			test.prepare(clean)
			if out, ok := clean.run(t, command, "", 0, 0); !ok || !test.check(clean, out) {
				t.Fatalf("without a fault: %t\n%s", ok, out)
			}
			total := clean.calls(t)
			for at := 1; at <= total; at++ {
				for _, fault := range []struct {
					name  string
					calls int
				}{{"ends", 1}, {"fails", 2}, {"fails", 15}} {
					t.Run(fmt.Sprintf("%s %d of %d, %d", fault.name, at, total, fault.calls), func(t *testing.T) {
						t.Parallel()
						c := newCluster(t)
						test.prepare(c)
						first, ok := c.run(t, command, fault.name, at, fault.calls)
						if ok && !test.check(c, first) {
							t.Errorf("a success too early:\n%s", first)
						}
						if !ok && fault.name == "fails" && !strings.Contains(first, "apply.sh: ") {
							t.Errorf("a failure without a message:\n%s", first)
						}
						second, ok := c.run(t, command, "", 0, 0)
						if !ok || !test.check(c, second) {
							t.Errorf("the second run: %t\n%s", ok, second)
						}
						if c.has("damage") {
							t.Error("nodes would reboot")
						}
					})
				}
			}
		})
	}
}
