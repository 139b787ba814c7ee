// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/command"
	"github.com/http01-proxyd/http01-proxyd/cmd/internal/terminal"
	"github.com/http01-proxyd/http01-proxyd/pkg/exporter/metrics"
	"github.com/http01-proxyd/http01-proxyd/pkg/report/client"
)

// The bounds of --interval.
const (
	defaultInterval = 2 * time.Second
	minInterval     = 200 * time.Millisecond
	maxInterval     = time.Hour
)

// statusFlags are the flags of status.
type statusFlags struct {
	socket   string
	format   string
	watch    bool
	interval time.Duration
}

func statusCommand() command.Command {
	return command.Command{
		Name:    "status",
		Summary: "show the status of the running service",
		Help: `Show the state of the running service: the VIPs that this host holds, the nftables
table in the kernel, the ingress addresses, the API server's certificates, the
counters and the last 20 challenges. The command requires root.

On a terminal, text is truncated to its width, and has colours unless NO_COLOR is
set. With --watch it is repainted until Ctrl-C, also while the service restarts; lines
that do not fit the terminal's height are left out and counted. In a file or a pipe,
each report is a block after an empty line, or a line with -o json. -o prometheus prints
what the exporter serves on metrics.listenAddress, whether that is set or not.

Exit codes: 0 success, 1 the service does not answer, 2 the command line is wrong.

Examples:
  http01-proxyd status
  http01-proxyd status --watch
  http01-proxyd status | less
  http01-proxyd status -o json | jq '.conditions[0]'
  http01-proxyd status -o prometheus | promtool check metrics
  http01-proxyd status -o json --watch --interval 10s | jq -r '.conditions[0].reason'`,
		Setup: func(flags *flag.FlagSet) func(context.Context, command.Streams) error {
			var f statusFlags
			flags.StringVar(&f.socket, "status-socket", defaultSocket, "Unix `SOCKET` of the service")
			flags.StringVar(&f.format, "output", "text", "`FORMAT` of the status: text, json or prometheus")
			flags.StringVar(&f.format, "o", "text", "short for --output `FORMAT`")
			flags.BoolVar(&f.watch, "watch", false, "repeat until Ctrl-C")
			flags.BoolVar(&f.watch, "w", false, "short for --watch")
			flags.DurationVar(&f.interval, "interval", defaultInterval, fmt.Sprintf("`DURATION` between two updates of --watch, %s to %s", shortDuration(minInterval), shortDuration(maxInterval)))
			return func(ctx context.Context, s command.Streams) error {
				if err := f.validate(flags); err != nil {
					return err
				}
				if f.watch {
					return watch(ctx, f, s.Out)
				}
				return f.once(ctx, s)
			}
		},
	}
}

func (f statusFlags) validate(flags *flag.FlagSet) error {
	switch f.format {
	case "text", "json":
	case "prometheus":
		if f.watch {
			return command.UsageError("-o prometheus cannot be used with --watch: let Prometheus scrape metrics.listenAddress")
		}
	default:
		return command.UsageError(fmt.Sprintf("output format %q: use text, json or prometheus", f.format))
	}
	if f.interval < minInterval || f.interval > maxInterval {
		return command.UsageError(fmt.Sprintf("--interval %s: use %s to %s", shortDuration(f.interval), shortDuration(minInterval), shortDuration(maxInterval)))
	}
	given := false
	flags.Visit(func(g *flag.Flag) { given = given || g.Name == "interval" })
	if given && !f.watch {
		return command.UsageError("--interval requires --watch")
	}
	return nil
}

// shortDuration formats a duration without zero units: 1h instead of 1h0m0s.
func shortDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

func (f statusFlags) once(ctx context.Context, s command.Streams) error {
	current, err := client.Fetch(ctx, f.socket)
	if err != nil {
		return err
	}
	switch f.format {
	case "json":
		return current.WriteJSON(s.Out, true)
	case "prometheus":
		return metrics.WriteText(s.Out, current)
	}
	columns, _ := command.TerminalSize(s.Out)
	return terminal.WriteReport(s.Out, current, time.Now(), terminal.View{Colour: command.SupportsColour(s.Out), Width: columns})
}
