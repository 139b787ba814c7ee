// SPDX-License-Identifier: Apache-2.0

package service

import (
	"fmt"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/pkg/host/systemd"
)

const (
	// Name is the unit of the service.
	Name = "http01-proxyd.service"
	// programPath is the path of the program in the unit.
	programPath = "/usr/local/bin/http01-proxyd"
	// Capability is required for nftables.
	Capability = "CAP_NET_ADMIN"

	exited = 1 // CLD_EXITED of sigaction(2)
)

// describeUnit describes the state of the unit.
func describeUnit(u systemd.Unit) string {
	switch {
	case u.LoadState == "not-found":
		return Name + " is not installed on this host"
	case u.LoadState != "loaded":
		return fmt.Sprintf("%s is %s", Name, u.LoadState)
	case u.ConditionFailed:
		return fmt.Sprintf("a condition of %s is not met, for example that %s exists", Name, u.ExecPath)
	}
	state := fmt.Sprintf("%s is %s", Name, u.ActiveState)
	if u.UnitFileState != "" {
		state += " and " + u.UnitFileState
	}
	if end := lastExit(u); end != "" {
		state += ", and " + end
	}
	if len(u.DropIns) > 0 { // which can take away a permission
		state += "; changed by " + strings.Join(u.DropIns, " and ")
	}
	return state
}

// lastExit describes the end of the last run, if that was a failure.
func lastExit(u systemd.Unit) string {
	if u.Result == "success" && u.ExecMainStatus == 0 {
		return ""
	}
	description := fmt.Sprintf("its last run ended by signal %d", u.ExecMainStatus)
	if u.ExecMainCode == exited {
		description = fmt.Sprintf("its last run ended with exit code %d", u.ExecMainStatus)
	}
	if u.Restarts > 0 {
		description += fmt.Sprintf(" after %d restarts", u.Restarts)
	}
	return description
}
