// SPDX-License-Identifier: Apache-2.0

package service

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/pkg/host/systemd"
)

// shipped has the relevant settings of the shipped unit. test/support/host checks
// the unit that systemd reports.
func shipped() systemd.Unit {
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
		"no namespace":           {func(u *systemd.Unit) { u.ExecMainCode, u.ExecMainStatus = 1, 226 }, []string{"systemd could not set up the sandbox (exit code 226; see journalctl -u http01-proxyd.service)"}},
		"an ordinary failure":    {func(u *systemd.Unit) { u.ExecMainCode, u.ExecMainStatus = 1, 1 }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := shipped()
			tt.change(&u)
			if diff := cmp.Diff(tt.want, sandboxFaults(u)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestDescribeUnit(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*systemd.Unit){
		"http01-proxyd.service is not installed on this host": func(u *systemd.Unit) { u.LoadState = "not-found" },
		"http01-proxyd.service is masked":                     func(u *systemd.Unit) { u.LoadState = "masked" },
		"http01-proxyd.service is inactive and disabled":      func(u *systemd.Unit) { u.ActiveState, u.UnitFileState = "inactive", "disabled" },
		"a condition of http01-proxyd.service is not met":     func(u *systemd.Unit) { u.ActiveState, u.ConditionFailed = "inactive", true },
		"its last run ended with exit code 203 after 7 restarts": func(u *systemd.Unit) {
			u.ActiveState, u.Result, u.ExecMainCode, u.ExecMainStatus, u.Restarts = "activating", "exit-code", 1, 203, 7
		},
		"and enabled, and its last run ended by signal 9": func(u *systemd.Unit) {
			u.ActiveState, u.Result, u.ExecMainCode, u.ExecMainStatus = "failed", "signal", 2, 9
		},
	} {
		u := shipped()
		change(&u)
		if got := describeUnit(u); !strings.Contains(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
