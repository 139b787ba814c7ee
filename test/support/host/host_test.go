// SPDX-License-Identifier: Apache-2.0

package host_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/http01-proxyd/http01-proxyd/test/support/host"
)

// extraHost returns an additional host for one test that starts a unit at boot.
func extraHost(t *testing.T, name, unit, text string) *host.Host {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: hosts that boot")
	}
	h, err := shared.cell.NewHost(host.Options{
		Name: name, Tree: os.Getenv(treeVariable), Bridge: bridge, Addresses: address(12).onLink(),
	})
	must(t, err)
	t.Cleanup(func() {
		if err := h.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(h.Root); err == nil {
			t.Errorf("%s is still there", h.Root)
		}
	})
	const dir = "/etc/systemd/system/"
	must(t, h.WriteFile(dir+unit, text, 0o644))
	must(t, h.WriteFile(dir+"multi-user.target.d/50-test.conf", "[Unit]\nWants="+unit+"\n", 0o644))
	return h
}

// TestBootTo holds that a hanging unit delays the end of a boot, but not units that are not
// ordered after it.
func TestBootTo(t *testing.T) {
	h := extraHost(t, "busy", "hangs.service", "[Unit]\nDefaultDependencies=no\n\n[Service]\nType=oneshot\nExecStart=sleep infinity\nTimeoutStartSec=infinity\n")
	if h.On() {
		t.Error("the host is on before Boot")
	}
	must(t, h.BootTo(t.Context(), "multi-user.target"))
	if !h.On() {
		t.Error("the host is off after Boot")
	}
	out, err := h.Run(t.Context(), "systemctl", "is-system-running")
	if strings.TrimSpace(out) != "starting" {
		t.Errorf("the system is %q, %v", out, err)
	}
	if held, err := h.Holds(t.Context(), address(12)[1]); !held || err != nil {
		t.Errorf("has its address: %t, %v", held, err)
	}
	must(t, h.Kill(t.Context()))
	if held, err := h.Holds(t.Context(), address(12)[1]); held || err != nil {
		t.Errorf("off, has its address: %t, %v", held, err)
	}
}

// TestCommandOutlivesCaller holds that a command that outlives its caller stays a process
// of the host and does not prevent its power-off.
func TestCommandOutlivesCaller(t *testing.T) {
	h := extraHost(t, "orphanage", "idle.service", "[Service]\nExecStart=sleep infinity\n")
	must(t, h.Boot(t.Context()))
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := h.Run(ctx, "sleep", "1001"); err == nil {
		t.Fatal("the command ended in time")
	}
	if _, err := h.Run(t.Context(), "pgrep", "--full", "^sleep 1001"); err != nil {
		t.Fatalf("the command did not outlive its caller: %v", err)
	}
	must(t, h.Kill(t.Context()))
}

// TestBootReportsFailedUnits holds that a boot with a failed unit returns an error with its
// name and the journal.
func TestBootReportsFailedUnits(t *testing.T) {
	const name = "fails.service"
	h := extraHost(t, "broken", name, "[Service]\nType=oneshot\nExecStart=/bin/sh -c 'echo the reason is this; exit 3'\n")
	err := h.Boot(t.Context())
	if err == nil {
		t.Fatal("Boot returned no error")
	}
	for _, want := range []string{"units failed at the boot of broken: " + name, "the reason is this"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %q: %v", want, err)
		}
	}
	// The host still accepts commands and a regular power-off.
	if err := h.PowerOff(t.Context()); err != nil {
		t.Error(err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
