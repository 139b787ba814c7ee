// SPDX-License-Identifier: Apache-2.0

package service

import (
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/pkg/host/systemd"
)

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
		"is active and enabled; changed by /etc/a.conf and /etc/b.conf": func(u *systemd.Unit) {
			u.DropIns = []string{"/etc/a.conf", "/etc/b.conf"}
		},
	} {
		u := systemd.Unit{LoadState: "loaded", ActiveState: "active", UnitFileState: "enabled", Result: "success"}
		change(&u)
		if got := describeUnit(u); !strings.Contains(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
