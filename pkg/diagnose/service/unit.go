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
	const exited = 1 // CLD_EXITED of sigaction(2)
	description := fmt.Sprintf("its last run ended by signal %d", u.ExecMainStatus)
	if u.ExecMainCode == exited {
		description = fmt.Sprintf("its last run ended with exit code %d", u.ExecMainStatus)
		if name := exitName(u.ExecMainStatus); name != "" {
			description += "/" + name
		}
	}
	if u.Restarts > 0 {
		description += fmt.Sprintf(" after %d restarts", u.Restarts)
	}
	return description
}

// exitName is systemd's name for one of its exit codes (systemd.exec(5), "Process Exit
// Codes"), for those that indicate a sandbox fault.
func exitName(code int) string {
	switch code {
	case exitExec:
		return "EXEC"
	case 217:
		return "USER"
	case 218:
		return "CAPABILITIES"
	case 226:
		return "NAMESPACE"
	case 228:
		return "SECCOMP"
	case 233:
		return "RUNTIME_DIRECTORY"
	case 238:
		return "STATE_DIRECTORY"
	default:
		return ""
	}
}

const exitExec = 203
