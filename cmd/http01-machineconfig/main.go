// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/command"
)

func main() { program().Main() }

func program() command.Program {
	return command.Program{
		Name: "http01-machineconfig",
		Head: `http01-machineconfig renders the MachineConfigs that install http01-proxyd on the
hosts of a pool, and the node disruption policy with which they change without a
reboot. It also combines the reports of the hosts into one condition. It reads and
writes files, and does not connect to a cluster.`,
		Foot: `"http01-machineconfig COMMAND --help" describes a command. Exit codes: 0 success,
1 failure, 2 the command line is wrong. The help of condition lists additional codes.`,
		Commands: []command.Command{renderCommand(), policyCommand(), conditionCommand()},
	}
}

// indentedError prints several problems, one per line. The lines after the first are
// indented, to show that they belong to the same message.
type indentedError struct{ error }

func (r indentedError) Error() string { return strings.ReplaceAll(r.error.Error(), "\n", "\n  ") }

func (r indentedError) Unwrap() error { return r.error }

// indentProblems wraps an error, and returns nil for nil.
func indentProblems(err error) error {
	if err == nil {
		return nil
	}
	return indentedError{err}
}
