// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/cli"
	"github.com/http01-proxyd/http01-proxyd/cmd/internal/page"
	"github.com/http01-proxyd/http01-proxyd/cmd/internal/section"
	"github.com/http01-proxyd/http01-proxyd/cmd/internal/terminal"
	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/condition"
	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/nodes"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

func statusCommand() *cobra.Command {
	var f nodeFlags
	var exitCode, watching bool
	var interval time.Duration
	c := &cobra.Command{
		Use: "status", Short: "show the status of the service on all control-plane nodes",
		Long: `Run "http01-proxyd status" on all control-plane nodes with oc debug, side by side. The
output shows which node holds which API VIP, the nodes, and each problem with its ID and
one command. -o wide adds the messages of the nodes, the remediation and the last
changes. -o html writes a page for a browser without a network, with all that each node
reports.

With --watch, the nodes are queried again until Ctrl-C, one round after the other. On a
terminal, the last challenges of all nodes are below the status, most recent first. In a
file or a pipe, each status is a block after an empty line. With -o json it is a line,
and with -o yaml a document.

The exit code is 4 if a node did not report. With --exit-code it is 3 if the cluster is
not ready. Without --exit-code it is 0 then: the status was printed.`,
		Example: `  oc http01 status
  oc http01 status --watch
  oc http01 status -o wide --nodes master0,master1
  oc http01 status -o json | jq '.vips[] | {address, holders}'
  oc http01 status -o html > cluster.html
  oc http01 status --exit-code > /dev/null || echo "not ready"`,
		RunE: func(c *cobra.Command, _ []string) error {
			switch {
			case watching && f.out.Format == cli.HTML:
				return cli.UsageError("-o html cannot be used with --watch: a page shows one status")
			case interval < minInterval || interval > maxInterval:
				return cli.UsageError(fmt.Sprintf("--interval %v: use %s", interval, intervalBounds))
			case c.Flags().Changed("interval") && !watching:
				return cli.UsageError("--interval requires --watch")
			case watching:
				return f.watch(c.Context(), c.OutOrStdout(), c.ErrOrStderr(), interval)
			}
			outputs, err := f.runOnEach(c.Context(), c.ErrOrStderr(), "http01-proxyd", "status", "-o", "json")
			if err != nil {
				return err
			}
			hosts, now := hostReports(outputs), time.Now()
			s := condition.ClusterStatus(hosts, now)
			if f.out.Format == cli.HTML {
				_, err = c.OutOrStdout().Write(page.ForCluster(s, pageHosts(hosts), now))
			} else {
				err = f.out.Write(c.OutOrStdout(), s, terminal.ClusterStatus(s, reportsOf(hosts)))
			}
			if err != nil {
				return err
			}
			return statusExitCode(s, exitCode)
		},
	}
	c.Flags().BoolVar(&exitCode, "exit-code", false, "exit with 3 if the cluster is not ready")
	c.Flags().BoolVarP(&watching, "watch", "w", false, "repeat until Ctrl-C")
	c.Flags().DurationVar(&interval, "interval", minInterval,
		"shortest `DURATION` between the starts of two rounds of --watch, "+intervalBounds)
	c.MarkFlagsMutuallyExclusive("watch", "exit-code")
	f.add(c, cli.Text, cli.Wide, cli.JSON, cli.YAML, cli.HTML)
	return c
}

// The bounds of --interval. Each round starts a debug pod on each node.
const (
	minInterval    = 10 * time.Second
	maxInterval    = time.Hour
	intervalBounds = "10s to 1h"
)

// watch shows the status of the nodes until ctx ends. A round that fails is shown, because the API
// cannot be reached while its VIP moves. The first one ends the command.
func (f *nodeFlags) watch(ctx context.Context, out, errOut io.Writer, interval time.Duration) error {
	var last cli.Update
	return f.out.Watch(ctx, out, interval, func(ctx context.Context) (cli.Update, error) {
		outputs, err := f.runOnEach(ctx, errOut, "http01-proxyd", "status", "-o", "json")
		errOut = io.Discard // the progress would be in the status
		now := time.Now()
		switch {
		case err != nil && last.Text == nil:
			return cli.Update{}, err
		case err != nil:
			failed := last
			failed.Text, failed.Screen = terminal.Failed(err, now, last.Text), terminal.Failed(err, now, last.Screen)
			return failed, nil
		}
		hosts := hostReports(outputs)
		s := condition.ClusterStatus(hosts, now)
		all := reportsOf(hosts)
		title := fmt.Sprintf("%s  http01-proxyd on %d control-plane nodes, every %v; Ctrl-C ends",
			now.Format(time.TimeOnly), len(hosts), interval)
		text := terminal.ClusterStatus(s, all)
		last = cli.Update{
			Document: s, Text: text, Screen: terminal.Watch(title, text, section.ClusterChallenges(all, now)),
		}
		return last, nil
	})
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

// reportsOf returns the reports by the names of the nodes.
func reportsOf(hosts []condition.HostReport) map[string]report.Report {
	all := make(map[string]report.Report, len(hosts))
	for _, h := range hosts {
		all[h.Name] = h.Report
	}
	return all
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
