// SPDX-License-Identifier: Apache-2.0

package host_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// capNetAdmin is the set with CAP_NET_ADMIN alone, number 12 (linux/capability.h), as
// proc_pid_status(5) prints it.
const (
	capNetAdmin = "0000000000001000"
	none        = "0000000000000000"
)

// process returns the fields of a process's status in /proc.
func (s *service) process(pid string) map[string]string {
	fields := make(map[string]string)
	for line := range strings.Lines(s.run("cat", "/proc/"+pid+"/status")) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		fields[name] = strings.TrimSpace(value)
	}
	return fields
}

// selectFields returns the fields that want has.
func selectFields(want, fields map[string]string) map[string]string {
	got := make(map[string]string)
	for name := range want {
		got[name] = fields[name]
	}
	return got
}

const (
	onPort9888 = "mode: CustomDeployment\ncustomDeployment:\n  internalPort: 9888\n"
	onPort9889 = "mode: CustomDeployment\ncustomDeployment:\n  internalPort: 9889\n"
)

// TestSandbox holds that the processes have no more rights than they need, also after a reload
// that changes the port.
func TestSandbox(t *testing.T) {
	s := newService(t, true)
	s.configure(onPort9888)
	s.systemctl("start", unit)
	s.awaitStatus("Serving: ")
	s.challenge()
	s.configure(onPort9889)
	s.systemctl("reload", unit)
	s.awaitPort(9889)
	s.challenge()
	pid := s.property("MainPID")
	s.awaitProperties(map[string]string{"NRestarts": "0"})
	const port = "redirected to port 9889"
	if shown := s.systemctl("status", unit); !strings.Contains(shown, port) {
		t.Errorf("systemctl status lacks %q:\n%s", port, shown)
	}

	process := s.process(pid)
	want := map[string]string{
		"CapInh": capNetAdmin, "CapPrm": capNetAdmin, "CapEff": capNetAdmin, "CapBnd": capNetAdmin, "CapAmb": capNetAdmin,
		"NoNewPrivs": "1", "Seccomp": "2",
	}
	if diff := cmp.Diff(want, selectFields(want, process)); diff != "" {
		t.Errorf("controller (-want +got):\n%s", diff)
	}
	proxy := s.proxyPID()
	wantProxy := map[string]string{
		// Inheritable: the unit's filter forbids capset(2), see internal/sandbox.
		"CapInh": capNetAdmin, "CapPrm": none, "CapEff": none, "CapBnd": capNetAdmin, "CapAmb": none,
		"NoNewPrivs": "1", "Seccomp": "2",
	}
	if diff := cmp.Diff(wantProxy, selectFields(wantProxy, s.process(proxy))); diff != "" {
		t.Errorf("proxy (-want +got):\n%s", diff)
	}
	for _, ids := range []string{"Uid", "Gid"} {
		if fields := strings.Fields(process[ids]); len(fields) != 4 || strings.Contains(" "+strings.Join(fields, " ")+" ",
			" 0 ") {
			t.Errorf("%s: %q, want four that are not root's", ids, process[ids])
		}
	}

	kept, err := s.node.ReadFile("/var/lib/private/http01-proxyd/state/last-accepted.yaml")
	if err != nil || kept != onPort9889 {
		t.Errorf("last accepted configuration: %q, %v", kept, err)
	}
	s.systemctl("stop", unit)
	denied := regexp.MustCompile(
		`(?i)operation not permitted|permission denied|read-only file system|\bEPERM\b|\bEACCES\b`)
	for _, e := range s.journal() {
		if denied.MatchString(e["MESSAGE"]) {
			t.Errorf("the sandbox denied something: %s", e["MESSAGE"])
		}
	}
}

func TestUnitFile(t *testing.T) {
	s := newService(t, false)
	if out := s.run("sh", "-c", "systemd-analyze verify --man=no "+unitPath+" 2>&1"); strings.TrimSpace(out) != "" {
		t.Errorf("systemd-analyze verify: %s", out)
	}
	lines := strings.Split(strings.TrimSpace(s.run("systemd-analyze", "security", "--offline=true", unitPath)), "\n")
	last := lines[len(lines)-1]
	t.Log(last)
	if exposure := regexp.MustCompile(`: ([0-9.]+) `).FindStringSubmatch(last); exposure == nil || len(exposure[1]) != 3 ||
		exposure[1] > "1.5" {
		t.Errorf("%q: want an exposure of 1.5 at most", last)
	}
}
