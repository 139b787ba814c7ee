// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/cli"
	"github.com/http01-proxyd/http01-proxyd/internal/child"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
)

func rootCommand() *cobra.Command {
	return cli.Root(&cobra.Command{
		Use:   "http01-proxyd",
		Short: "forwards ACME HTTP-01 challenges for the API VIP to the ingress",
		Annotations: map[string]string{
			cli.ManSection: "8",
			cli.ManFiles: strings.Join([]string{
				defaultConfig + ": the configuration, which http01-proxyd.yaml(5) describes",
				defaultState + ": the state of the service",
				defaultSocket + ": the socket of http01-proxyd status",
			}, "\n"),
			cli.OtherProgram: "oc http01: render preflight condition",
			cli.ManEnvironment: `NO_COLOR: Any value turns off the colours of --color=auto.
TERM: The value dumb turns them off too. status --watch then prints one report below the other.
NOTIFY_SOCKET: The socket of systemd. run reports its state and its status line there.
WATCHDOG_USEC, WATCHDOG_PID: The interval in which systemd expects a message of run.
FDSTORE: How many descriptors systemd keeps for the next process. run hands over its listening sockets if this is not 0.
LISTEN_PID, LISTEN_FDS, LISTEN_FDNAMES: The descriptors that systemd has kept from the previous process.
GOMEMLIMIT: The memory limit of run and its child processes together, such as 240MiB.
GOGC: The garbage collector's target. Without it, the controller uses 50 and the exporter 25.`,
			cli.ManSignals: `SIGTERM, SIGINT: The command ends. Before that, trace prints what it has traced. run removes its table and closes its listening sockets. If systemd restarts the unit, run leaves both to the next process. A second signal ends the process at once.
SIGHUP: run reloads its configuration. Other commands end.`,
		},
		Long: `http01-proxyd forwards ACME HTTP-01 challenges for the API VIP to the ingress
routers. It answers all other requests to port 80 of that VIP with 400.`,
	},
		cli.Group{Title: "Diagnosis", Commands: []*cobra.Command{
			statusCommand(), checkCommand(), traceCommand(), cli.ExplainCommand("http01-proxyd",
				"journalctl -u http01-proxyd -o json | jq -r '.CAUSE // empty'", func(e findings.Entry) []string { return e.Commands }),
		}},
		cli.Group{Title: "Service", Commands: []*cobra.Command{
			runCommand(), cleanupCommand(), installCommand(), childCommand(child.Proxy, "serve clients"),
			childCommand(child.Prober, "query the network"), childCommand(child.Exporter, "serve metrics"),
		}},
	)
}
