// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/cli"
	"github.com/http01-proxyd/http01-proxyd/cmd/internal/page"
	"github.com/http01-proxyd/http01-proxyd/cmd/internal/terminal"
	"github.com/http01-proxyd/http01-proxyd/pkg/exporter/metrics"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings/verdict"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
	"github.com/http01-proxyd/http01-proxyd/pkg/report/client"
)

// The bounds of --interval.
const (
	defaultInterval = 2 * time.Second
	minInterval     = 200 * time.Millisecond
	maxInterval     = time.Hour
	intervalBounds  = "200ms to 1h"
)

// prometheus is the output format of the exporter.
const prometheus = "prometheus"

// statusFlags are the flags of status.
type statusFlags struct {
	socket   string
	out      cli.Output
	watch    bool
	exitCode bool
	interval time.Duration
}

func statusCommand() *cobra.Command {
	var f statusFlags
	c := &cobra.Command{
		Use: "status", Short: "show the status of the running service",
		Long: `Show the state of the running service on one screen: its VIPs, the ingress addresses, the
last challenge, the API server's certificate, and each problem with its ID and one
command. -o wide prints all details: the rules with their counters, requests by outcome,
the last 20 challenges, the last changes of VIPs and conditions, trusted CAs, egress
proxy, metrics, and the remediation of each problem. The command requires root.

With --watch, the status is repainted until Ctrl-C, also while the service restarts. The
last challenges are below it, most recent first. In a file or a pipe, each status is a
block after an empty line. With -o json it is a line, and with -o yaml a document.
-o prometheus prints what the exporter serves on metrics.listenAddress, whether that
is set or not. -o html writes a page for a browser without a network, for example for a
support case.

The exit code is 1 if the service is not running or does not answer. With --exit-code it
also reports the condition HTTP01ChallengeProxyReady.`,
		Example: `  http01-proxyd status
  http01-proxyd status --watch
  http01-proxyd status --color=always | less -R
  http01-proxyd status --exit-code -o json > /dev/null
  http01-proxyd status -o json | jq '.conditions[0]'
  http01-proxyd status -o html > status.html
  http01-proxyd status -o prometheus | promtool check metrics
  http01-proxyd status -o json --watch --interval 10s | jq -r '.conditions[0].reason'`,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := f.validate(c.Flags()); err != nil {
				return err
			}
			if f.watch {
				return watch(c.Context(), f, c.OutOrStdout())
			}
			return f.once(c.Context(), c.OutOrStdout())
		},
	}
	flags := c.Flags()
	f.out.Add(c, cli.Text, cli.Wide, cli.JSON, cli.YAML, cli.HTML, prometheus)
	flags.BoolVar(&f.exitCode, "exit-code", false, "return 3 if the condition is False, and 4 if it is Unknown")
	flags.BoolVarP(&f.watch, "watch", "w", false, "repeat until Ctrl-C")
	flags.DurationVar(&f.interval, "interval", defaultInterval,
		"`DURATION` between two updates of --watch, "+intervalBounds)
	flags.StringVar(&f.socket, "status-socket", defaultSocket, "Unix `SOCKET` of the service")
	c.MarkFlagsMutuallyExclusive("watch", "exit-code")
	return c
}

func (f statusFlags) validate(flags *pflag.FlagSet) error {
	switch {
	case f.watch && f.out.Format == prometheus:
		return cli.UsageError("-o prometheus cannot be used with --watch: let Prometheus scrape metrics.listenAddress")
	case f.watch && f.out.Format == cli.HTML:
		return cli.UsageError("-o html cannot be used with --watch: a page shows one report")
	case f.interval < minInterval || f.interval > maxInterval:
		return cli.UsageError(fmt.Sprintf("--interval %v: use %s", f.interval, intervalBounds))
	case flags.Changed("interval") && !f.watch:
		return cli.UsageError("--interval requires --watch")
	}
	return nil
}

// once prints the status.
func (f statusFlags) once(ctx context.Context, out io.Writer) error {
	current, err := client.Fetch(ctx, f.socket)
	stopped := errors.Is(err, report.ErrNotRunning) && f.out.Format != prometheus
	if stopped {
		current, err = report.ServiceUnreachable(time.Now(), err), nil
		current.StateSince = time.Time{} // unknown
	}
	if err != nil {
		return err
	}
	if err := f.write(out, current); err != nil {
		return err
	}
	if stopped {
		return cli.ExitCode(cli.Failure)
	}
	switch ready := current.Condition().Status; {
	case !f.exitCode || ready == "True":
		return nil
	case ready == "False":
		return cli.ExitCode(cli.Unhealthy)
	default:
		return cli.ExitCode(cli.Unknown)
	}
}

func (f statusFlags) write(out io.Writer, current report.Report) error {
	switch f.out.Format {
	case cli.HTML:
		return writePage(out, page.Host{Name: hostName(), Status: current})
	case prometheus:
		_, err := io.WriteString(out, metrics.Text(current))
		return err
	default:
		now := time.Now()
		return f.out.Write(out, verdict.Document(current, now), terminal.Report(current, now))
	}
}

func writePage(out io.Writer, h page.Host) error {
	_, err := out.Write(page.ForHost(h, time.Now()))
	return err
}
