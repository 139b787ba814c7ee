// SPDX-License-Identifier: Apache-2.0

// Command http01-machineconfig is the admin's side of http01-proxyd: it renders
// the MachineConfigs that deliver the service, looks after their entries in the
// cluster's NodeDisruptionPolicy, and folds what the hosts report into one
// condition. It talks to no cluster.
package main

import (
	"strings"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/command"
)

func main() { program().Main() }

func program() command.Program {
	return command.Program{
		Name: "http01-machineconfig",
		Head: `http01-machineconfig renders the MachineConfigs that put http01-proxyd on the
hosts of a pool, and the NodeDisruptionPolicy that lets them change without a
reboot; and it folds what the hosts report into one condition. It reads and
writes files and talks to no cluster.`,
		Foot: `"http01-machineconfig COMMAND --help" tells more. Exit codes: 0 done, 1 refused
or failed, 2 the command line is wrong; condition has codes of its own.`,
		Commands: []command.Command{renderCommand(), policyCommand(), conditionCommand()},
	}
}

// indentedError is an error whose message tells all problems at once, a line each:
// those after the first are indented, as belonging to the same message.
type indentedError struct{ error }

func (r indentedError) Error() string { return strings.ReplaceAll(r.error.Error(), "\n", "\n  ") }

func (r indentedError) Unwrap() error { return r.error }

// indentProblems makes a refusal of an error, and nothing of none.
func indentProblems(err error) error {
	if err == nil {
		return nil
	}
	return indentedError{err}
}
