// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/spf13/cobra"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/cli"
	"github.com/http01-proxyd/http01-proxyd/cmd/internal/terminal"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/result"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

func traceCommand() *cobra.Command {
	var o diagnose.TraceOptions
	var flags cli.TraceFlags
	var out cli.Output
	c := &cobra.Command{
		Use: "trace", Short: "follow packets to port 80 of the API VIP",
		Long: `Follow packets of clients to port 80 of the API VIPs of this host, and the replies, by
the kernel's own trace. The command must run as root on the host that holds a VIP.

Each packet has a block with a line for each step. The steps are the link by which it
arrived, each base chain with its verdict, and the translation of the port. The end is
the delivery to the proxy, the link by which a reply left, or the rule that dropped the
packet. The last lines are commands that let dropped packets pass until the rules are
loaded again. -o wide adds priorities, rules, and the chains of the service and of the
trace.

The command adds tables of its own to nftables, which the kernel removes with the
process. It changes no packet. Ctrl-C ends it and prints what was traced.

The exit code is 3 if a packet was dropped, lost or not redirected on this host, and 4 if
none arrived.`,
		Example: `  http01-proxyd trace
  http01-proxyd trace --count 1 --from 203.0.113.9
  http01-proxyd trace --duration 5m -o wide
  http01-proxyd trace -o json | jq '.packets[] | {client, end, message}'`,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := flags.Validate(); err != nil {
				return err
			}
			err := makeAbsolute(&o.ConfigPath, &o.StateDir, &o.StatusSocket, &o.ManifestDir, &o.DisabledManifestDir)
			if err != nil {
				return err
			}
			o.From, o.Duration, o.Count = flags.From, flags.Duration, flags.Count
			return runTrace(c.Context(), o, c.ErrOrStderr(), func(r report.Trace) error {
				return out.Write(c.OutOrStdout(), r, terminal.Trace(r))
			})
		},
	}
	flags.Add(c)
	addVIPSources(c.Flags(), &o.HostPaths)
	out.Add(c, cli.Text, cli.Wide, cli.JSON, cli.YAML)
	return c
}

// runTrace shows the progress on a terminal.
func runTrace(ctx context.Context, o diagnose.TraceOptions, errOut io.Writer, write func(report.Trace) error) error {
	line, begin := newProgressLine(errOut), time.Now()
	r, err := diagnose.Trace(ctx, o, func(vips []netip.Addr, packets int) {
		line.show(fmt.Sprintf("tracing port 80 of %s: %v of %v, %d packets; Ctrl-C ends", result.JoinAddresses(vips),
			time.Since(begin).Round(time.Second), o.Duration, packets))
	})
	line.clear()
	if err != nil {
		return err
	}
	if err := write(r); err != nil {
		return fmt.Errorf("cannot write the trace: %w", err)
	}
	return cli.TraceExitCode(r.Packets)
}
