// SPDX-License-Identifier: Apache-2.0

package service

import (
	"fmt"

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

// The exit codes of systemd's own that indicate a sandbox fault, except exitExec (systemd.exec(5),
// "Process Exit Codes").
const (
	exitFirst = 200
	exitExec  = 203
	exitLast  = 245
)

// isSandboxExit reports whether systemd could not set up the sandbox of the last run.
func isSandboxExit(u systemd.Unit) bool {
	return u.ExecMainCode == exited && u.ExecMainStatus >= exitFirst && u.ExecMainStatus <= exitLast &&
		u.ExecMainStatus != exitExec
}
