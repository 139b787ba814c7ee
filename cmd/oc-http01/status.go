// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/cli"
	"github.com/http01-proxyd/http01-proxyd/cmd/internal/page"
	"github.com/http01-proxyd/http01-proxyd/cmd/internal/terminal"
	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/condition"
	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/nodes"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

func statusCommand() *cobra.Command {
	var f nodeFlags
	var exitCode bool
	c := &cobra.Command{
		Use: "status", Short: "show the status of the service on all control-plane nodes",
		Long: `Run "http01-proxyd status" on all control-plane nodes with oc debug, side by side. The
output shows which node holds which API VIP, the nodes, and the problems with their
remediation. -o wide adds the messages of the nodes. -o html writes
a page for a browser without a network, with all that each node reports.

The exit code is 4 if a node did not report. With --exit-code it is 3 if the cluster is
not ready. Without --exit-code it is 0 then: the status was printed.`,
		Example: `  oc http01 status
  oc http01 status -o wide --nodes master0,master1
  oc http01 status -o json | jq '.vips[] | {address, holders}'
  oc http01 status -o html > cluster.html
  oc http01 status --exit-code > /dev/null || echo "not ready"`,
		RunE: func(c *cobra.Command, _ []string) error {
			outputs, err := f.runOnEach(c.Context(), c.ErrOrStderr(), "http01-proxyd", "status", "-o", "json")
			if err != nil {
				return err
			}
			hosts, now := hostReports(outputs), time.Now()
			s := condition.ClusterStatus(hosts, now)
			if f.out.Format == cli.HTML {
				_, err = c.OutOrStdout().Write(page.ForCluster(s, pageHosts(hosts), now))
			} else {
				err = f.out.Write(c.OutOrStdout(), s, terminal.ClusterStatus(s))
			}
			if err != nil {
				return err
			}
			return statusExitCode(s, exitCode)
		},
	}
	c.Flags().BoolVar(&exitCode, "exit-code", false, "exit with 3 if the cluster is not ready")
	f.add(c, cli.Text, cli.Wide, cli.JSON, cli.YAML, cli.HTML)
	return c
}

// hostReports reads the reports of the nodes, sorted by name as in the status.
func hostReports(outputs []nodes.Output) []condition.HostReport {
	hosts := make([]condition.HostReport, len(outputs))
	for i, o := range outputs {
		hosts[i] = condition.Read(o)
	}
	slices.SortFunc(hosts, func(a, b condition.HostReport) int { return cmp.Compare(a.Name, b.Name) })
	return hosts
}

// pageHosts returns the whole reports of the nodes.
func pageHosts(hosts []condition.HostReport) []page.Host {
	all := make([]page.Host, len(hosts))
	for i, h := range hosts {
		all[i] = page.Host{Name: h.Name, Error: h.Problem, Status: h.Report}
	}
	return all
}

func statusExitCode(s report.ClusterStatus, health bool) error {
	switch {
	case health && s.Condition.Status == "False":
		return cli.ExitCode(cli.Unhealthy)
	case slices.ContainsFunc(s.Nodes, func(n report.NodeStatus) bool { return !n.Reported }):
		return cli.ExitCode(cli.Unknown)
	}
	return nil
}

// exitWithOutcome ends a command with the exit code for an outcome.
func exitWithOutcome(o report.ClusterOutcome) error {
	switch o {
	case report.ClusterProblems:
		return cli.ExitCode(cli.Unhealthy)
	case report.ClusterIncomplete:
		return cli.ExitCode(cli.Unknown)
	default:
		return nil
	}
}
