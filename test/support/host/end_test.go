// SPDX-License-Identifier: Apache-2.0

package host_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestWatchdog holds that the watchdog ends and restarts a hanging process.
func TestWatchdog(t *testing.T) {
	s := startServing(t)
	if own := s.property("WatchdogUSec"); own != "30s" {
		t.Errorf("WatchdogSec of the unit as it is: %q", own)
	}
	// A shorter time for the test. The loops report every 5 s.
	s.override("WatchdogSec=12s")
	s.systemctl("restart", unit)
	s.awaitStatus("Serving: ")
	pid := s.property("MainPID")
	s.run("kill", "-STOP", pid)
	s.awaitRestart()
	s.challenge()
	if again := s.property("MainPID"); again == pid {
		t.Errorf("still process %s", pid)
	}
	found := false
	for _, e := range s.journal() {
		found = found || strings.Contains(e["MESSAGE"], "Watchdog timeout (limit 12s)!")
	}
	if !found {
		t.Error("systemd does not report the watchdog")
	}
}

// othersTables holds tables like OpenShift's own redirect and an administrator's.
const othersTables = `
table ip ocp_nat {
	chain ocp_prerouting {
		type nat hook prerouting priority dstnat;
		ip daddr 192.0.2.5 tcp dport 6443 counter redirect to :9445 comment "OCP_API_LB_REDIRECT"
	}
}
table inet admin {
	set blocked { type ipv4_addr; elements = { 203.0.113.7 }; }
	chain input {
		type filter hook input priority filter; policy accept;
		ip saddr @blocked drop
	}
}
`

// TestStopLeavesNothing holds that a stop restores the host.
func TestStopLeavesNothing(t *testing.T) {
	s := newService(t, true)
	_, err := s.node.Input(t.Context(), othersTables, "nft", "-f", "-")
	s.requireNoError(err)
	s.runOnCleanup("nft", "delete table ip ocp_nat; delete table inet admin")
	ruleset := func() string { return s.run("nft", "-s", "-a", "list", "ruleset") }
	before := ruleset()
	s.systemctl("start", unit)
	s.awaitStatus("Serving: ")
	s.challenge()
	if !s.hasTable() {
		t.Error("Serving without a table")
	}
	s.systemctl("stop", unit)
	s.awaitProperties(map[string]string{
		"Result": "success", "ExecMainStatus": "0", "ActiveState": "inactive",
		"NRestarts": "0",
	})
	if diff := cmp.Diff(before, ruleset()); diff != "" {
		t.Errorf("ruleset (-before +after):\n%s", diff)
	}
	if out, err := s.node.Run(t.Context(), "ls", "/run/http01-proxyd"); err == nil {
		t.Errorf("left in /run/http01-proxyd: %q", out)
	}
	if listening := s.run("ss", "-Hltn"); strings.TrimSpace(listening) != "" {
		t.Errorf("something listens:\n%s", listening)
	}
	s.wantClosed()
	s.run("ls", "/var/lib/private/http01-proxyd/state/last-accepted.yaml")
	s.systemctl("clean", "--what=state", unit)
	if out, err := s.node.Run(t.Context(), "ls", "/var/lib/private/http01-proxyd/state"); err == nil {
		t.Errorf("systemctl clean left state: %q", out)
	}
}

// TestBoot holds that an enabled unit serves after a reboot and after a power loss.
func TestBoot(t *testing.T) {
	s := newService(t, true)
	s.systemctl("enable", "--now", unit)
	s.awaitStatus("Serving: ")
	for name, again := range map[string]func(context.Context) error{
		"reboot": s.node.Reboot,
		"power loss": func(ctx context.Context) error {
			if err := s.node.Kill(ctx); err != nil {
				return err
			}
			return s.node.Boot(ctx)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &service{testbed: s.testbed, t: t, before: s.before}
			boot := s.run("cat", "/proc/sys/kernel/random/boot_id")
			s.requireNoError(again(t.Context()))
			if s.run("cat", "/proc/sys/kernel/random/boot_id") == boot {
				t.Fatal("the host did not reboot")
			}
			s.awaitStatus("Serving: ")
			s.challenge()
			s.awaitProperties(map[string]string{"NRestarts": "0", "Result": "success"})
		})
	}
}
