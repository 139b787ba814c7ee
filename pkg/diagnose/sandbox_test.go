// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/pkg/host/systemd"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// shippedUnit has the relevant settings of the shipped unit. test/suites/host checks
// the unit that systemd reports.
func shippedUnit() systemd.Unit {
	return systemd.Unit{
		LoadState: "loaded", ActiveState: "active", UnitFileState: "enabled", Result: "success", ExecPath: programPath, DynamicUser: true,
		BoundingSet: 1 << unix.CAP_NET_ADMIN, Ambient: 1 << unix.CAP_NET_ADMIN,
		AddressFamilies: systemd.Filter{Allow: true, Names: []string{"AF_INET", "AF_INET6", "AF_NETLINK", "AF_UNIX"}},
		SystemCalls:     systemd.Filter{Allow: true, Names: requiredSyscalls()},
	}
}

func TestSandboxFaults(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(*systemd.Unit)
		want   []string
	}{
		"as shipped":             {func(*systemd.Unit) {}, nil},
		"without any sandbox":    {func(u *systemd.Unit) { *u = systemd.Unit{LoadState: "loaded", BoundingSet: ^uint64(0)} }, nil},
		"an empty bounding set":  {func(u *systemd.Unit) { u.BoundingSet = 0 }, []string{"CapabilityBoundingSet= lacks CAP_NET_ADMIN"}},
		"no ambient capability":  {func(u *systemd.Unit) { u.Ambient = 0 }, []string{"AmbientCapabilities= lacks CAP_NET_ADMIN"}},
		"none is needed by root": {func(u *systemd.Unit) { u.Ambient, u.DynamicUser, u.User = 0, false, "root" }, nil},
		"no netlink":             {func(u *systemd.Unit) { u.AddressFamilies.Names = u.AddressFamilies.Names[:2] }, []string{"RestrictAddressFamilies= denies AF_NETLINK AF_UNIX"}},
		"a denied family":        {func(u *systemd.Unit) { u.AddressFamilies = systemd.Filter{Names: []string{"AF_INET6"}} }, []string{"RestrictAddressFamilies= denies AF_INET6"}},
		"denied calls":           {func(u *systemd.Unit) { u.SystemCalls = systemd.Filter{Names: []string{"ptrace", "seccomp"}} }, []string{"SystemCallFilter= denies seccomp"}},
		"no network":             {func(u *systemd.Unit) { u.PrivateNetwork, u.PrivateUsers = true, true }, []string{"PrivateNetwork=yes hides the host's network", "PrivateUsers=yes disables CAP_NET_ADMIN"}},
		"a firewall of the unit": {func(u *systemd.Unit) { u.DeniesIPAddresses = true }, []string{"IPAddressDeny= blocks connections"}},
		"killed by a filter":     {func(u *systemd.Unit) { u.ExecMainCode, u.ExecMainStatus = 3, 31 }, []string{"a system call filter killed it (SIGSYS)"}},
		"killed by an admin":     {func(u *systemd.Unit) { u.ExecMainCode, u.ExecMainStatus = 2, 9 }, nil},
		"no namespace":           {func(u *systemd.Unit) { u.ExecMainCode, u.ExecMainStatus = 1, 226 }, []string{"systemd could not set up the sandbox (exit code 226/NAMESPACE; see journalctl -u http01-proxyd.service)"}},
		"an ordinary failure":    {func(u *systemd.Unit) { u.ExecMainCode, u.ExecMainStatus = 1, 1 }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := shippedUnit()
			tt.change(&u)
			if diff := cmp.Diff(tt.want, sandboxFaults(u)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestUnitState(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*systemd.Unit){
		"http01-proxyd.service is not installed on this host": func(u *systemd.Unit) { u.LoadState = "not-found" },
		"http01-proxyd.service is masked":                     func(u *systemd.Unit) { u.LoadState = "masked" },
		"http01-proxyd.service is inactive and disabled":      func(u *systemd.Unit) { u.ActiveState, u.UnitFileState = "inactive", "disabled" },
		"a condition of http01-proxyd.service is not met":     func(u *systemd.Unit) { u.ActiveState, u.ConditionFailed = "inactive", true },
		"its last run ended with exit code 203/EXEC after 7 resta": func(u *systemd.Unit) {
			u.ActiveState, u.Result, u.ExecMainCode, u.ExecMainStatus, u.Restarts = "activating", "exit-code", 1, 203, 7
		},
		"and enabled, and its last run ended by signal 9": func(u *systemd.Unit) {
			u.ActiveState, u.Result, u.ExecMainCode, u.ExecMainStatus = "failed", "signal", 2, 9
		},
	} {
		u := shippedUnit()
		change(&u)
		h := &host{unit: func() (systemd.Unit, error) { return u, nil }}
		if got := h.unitState(); !strings.Contains(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestServiceUnresponsive distinguishes an unresponsive service from a stopped one and
// from one that only root can query.
func TestServiceUnresponsive(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		err    error
		active string
		want   bool
	}{
		"it responds":            {nil, "active", false},
		"it takes too long":      {fmt.Errorf("read: %w", os.ErrDeadlineExceeded), "active", true},
		"the same, no systemd":   {fmt.Errorf("read: %w", &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}), "", true},
		"active, no socket":      {unix.ECONNREFUSED, "active", true},
		"it is stopped":          {fs.ErrNotExist, "inactive", false},
		"it starts":              {unix.ECONNREFUSED, "activating", false},
		"only root can query it": {fs.ErrPermission, "active", false},
	} {
		h := &host{
			unit: func() (systemd.Unit, error) {
				if tt.active == "" {
					return systemd.Unit{}, fs.ErrNotExist
				}
				return systemd.Unit{ActiveState: tt.active}, nil
			},
			report: func() (report.Report, error) { return report.Report{}, tt.err },
		}
		if got := h.serviceUnresponsive(); got != tt.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestNoSandboxFaultsWhenReady: a service that is ready has no sandbox faults, whatever
// its unit contains.
func TestNoSandboxFaultsWhenReady(t *testing.T) {
	t.Parallel()
	u := shippedUnit()
	u.BoundingSet = 0
	for reason, want := range map[report.Reason]int{report.Serving: 0, report.Standby: 0, report.NftablesUnavailable: 1} {
		h := &host{
			unit: func() (systemd.Unit, error) { return u, nil },
			report: func() (report.Report, error) {
				return report.Report{Conditions: []report.Condition{{Type: report.ConditionType, Reason: reason}}}, nil
			},
		}
		if got := h.deniedBySandbox(); len(got) != want {
			t.Errorf("%s: %q", reason, got)
		}
	}
}
