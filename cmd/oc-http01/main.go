// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/cli"
	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/check"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
)

func rootCommand() *cobra.Command {
	return cli.Root(&cobra.Command{
		Use:   "oc-http01",
		Short: "installs http01-proxyd on a cluster and examines it",
		Annotations: map[string]string{
			cobra.CommandDisplayNameAnnotation: "oc http01",
			cli.ManSection:                     "1",
			cli.OtherProgram:                   "http01-proxyd: run cleanup install",
			cli.ManEnvironment: `PATH: The folders with oc. oc also finds this program there.
KUBECONFIG: The kubeconfig of oc, unless --kubeconfig is given.
NO_COLOR: Any value turns off the colours of --color=auto.
TERM: The value dumb turns them off too.`,
			cli.ManSignals: `SIGTERM, SIGINT: The command interrupts oc, which removes its debug pods, and ends. A second signal ends the process at once.`,
		},
		Long: `oc-http01 installs http01-proxyd on the control-plane nodes of a cluster, and shows
how the service works there. oc runs the program as "oc http01" if it is in PATH.
Completion works for "oc-http01": oc does not complete the commands of plugins.

status, check, certificate, trace and condition run oc, which needs the permission to debug
nodes. All other commands read and write files, and do not connect to a cluster.`,
	},
		cli.Group{Title: "Installation", Commands: []*cobra.Command{renderCommand(), preflightCommand()}},
		cli.Group{Title: "Diagnosis", Commands: []*cobra.Command{
			statusCommand(), checkCommand(), certificateCommand(), traceCommand(), conditionCommand(),
			cli.ExplainCommand("oc http01", "oc http01 check -o json | jq -r '.findings[].id'", explained),
		}},
	)
}

// indentedError prints several problems, one per line. The lines after the first are
// indented, to show that they belong to the same message.
type indentedError struct{ error }

func (r indentedError) Error() string { return strings.ReplaceAll(r.error.Error(), "\n", "\n  ") }

func (r indentedError) Unwrap() error { return r.error }

// explained returns the commands of a finding's entry for a workstation. The commands of preflight
// and of certificate run there already.
func explained(e findings.Entry) (commands []string) {
	if e.Check == findings.PreflightCheck || e.Check == findings.IssuanceCheck {
		return e.Commands
	}
	for _, command := range e.Commands {
		commands = append(commands, check.FromWorkstation("{node}", command))
	}
	return commands
}
