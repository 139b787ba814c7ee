// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/cli"
	"github.com/http01-proxyd/http01-proxyd/cmd/internal/terminal"
	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/check"
	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/condition"
	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/nodes"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

func traceCommand() *cobra.Command {
	var f nodeFlags
	var flags cli.TraceFlags
	c := &cobra.Command{
		Use: "trace", Short: "follow packets to port 80 of the API VIP, on the node that holds it",
		Long: `Run "http01-proxyd trace" with oc debug on the nodes that hold an API VIP. It follows
packets of clients to port 80 of the VIP, and the replies, by the kernel's own trace. It
shows the rule that drops one, with a command that lets such packets pass.

The command first runs "http01-proxyd status" on all control-plane nodes. --timeout
starts after --duration. Ctrl-C ends the command without packets.

The exit code is 3 if a packet was dropped, lost or not redirected on a node. It is 4 if
none arrived, or a node did not report.`,
		Example: `  oc http01 trace
  oc http01 trace --count 1 --from 203.0.113.9
  oc http01 trace --nodes master0 --duration 5m -o wide`,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := flags.Validate(); err != nil {
				return err
			}
			outputs, err := f.runOnEach(c.Context(), c.ErrOrStderr(), "http01-proxyd", "status", "-o", "json")
			if err != nil {
				return err
			}
			holders := holdersAmong(outputs)
			if len(holders) == 0 {
				return errors.New("no node reports that it holds an API VIP: run oc http01 status")
			}
			silent := slices.DeleteFunc(outputs, func(o nodes.Output) bool { return o.Problem == "" })
			command := append(commandWith(c, "count", "from"), "--duration="+flags.Duration.String()) // of any version
			for _, n := range holders {
				showProgress(c.ErrOrStderr(), "tracing on %s for %v", n.Name, flags.Duration)
			}
			outputs = f.oc.RunOnEach(c.Context(), holders, flags.Duration+f.timeout, command...)
			if c.Context().Err() != nil {
				return errors.New("interrupted: --duration and --count end a trace with its packets")
			}
			result := clusterTrace(slices.Concat(outputs, silent), time.Now())
			if err := f.out.Write(c.OutOrStdout(), result, terminal.ClusterTrace(result)); err != nil {
				return err
			}
			return traceExitCode(result)
		},
	}
	flags.Add(c)
	f.add(c, cli.Text, cli.Wide, cli.JSON, cli.YAML)
	return c
}

// holdersAmong returns the nodes that report that they hold an API VIP.
func holdersAmong(outputs []nodes.Output) (holders []nodes.Node) {
	for _, o := range outputs {
		if slices.ContainsFunc(condition.Read(o).VIPs, func(v report.VIP) bool { return v.State == report.VIPHeld }) {
			holders = append(holders, nodes.Node{Name: o.Node})
		}
	}
	return holders
}

func clusterTrace(outputs []nodes.Output, now time.Time) report.ClusterTrace {
	c := report.ClusterTrace{
		Header: report.NewHeader("ClusterTrace"), Time: now.UTC().Truncate(time.Second), Nodes: []report.NodeTrace{},
	}
	for _, o := range outputs {
		t := nodes.Decode[report.Trace](&o, "Trace")
		n := report.NodeTrace{Name: o.Node, Problem: o.Problem, Remediation: o.Remediation}
		if o.Problem == "" {
			t.Host, n.Trace = o.Node, &t
			if o.Note != "" {
				t.Message = strings.TrimPrefix(t.Message+"; "+o.Note, "; ")
			}
			for i := range t.Packets {
				t.Packets[i].Fix = check.CommandOn(o.Node, t.Packets[i].Fix)
			}
		}
		c.Nodes = append(c.Nodes, n)
	}
	return c
}

func traceExitCode(c report.ClusterTrace) error {
	var packets []report.TracedPacket
	missing := false
	for _, n := range c.Nodes {
		if n.Trace == nil {
			missing = true
			continue
		}
		packets = append(packets, n.Trace.Packets...)
	}
	err := cli.TraceExitCode(packets)
	if err == nil && missing {
		return cli.ExitCode(cli.Unknown)
	}
	return err
}
