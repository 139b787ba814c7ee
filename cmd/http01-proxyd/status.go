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

// Bounds of --interval.
const (
	defaultInterval = 2 * time.Second
	minInterval     = 200 * time.Millisecond
	maxInterval     = time.Hour
)

// statusFlags are what `status` was asked.
type statusFlags struct {
	socket   string
	format   string
	watch    bool
	interval time.Duration
}

func statusCommand() command.Command {
	return command.Command{
		Name:    "status",
		Summary: "show what the running service knows",
		Help: `Ask the running service for its state, the VIPs that this host holds, its
table as the kernel has it, the ingress addresses, the API server's certificates,
what it has counted and the last 20 challenges. Only root may ask.

On a terminal, text is truncated to its width, and has colours unless NO_COLOR is
set. With --watch it is repainted until Ctrl-C, also while the service restarts; lines
that do not fit the terminal's height are left out and counted. In a file or a pipe,
each report is a block after an empty line, or a line with -o json. -o prometheus prints
what the exporter serves on metrics.listenAddress, whether that is set or not.

Exit codes: 0 done, 1 the service does not answer, 2 the command line is wrong.

Examples:
  http01-proxyd status
  http01-proxyd status --watch
  http01-proxyd status | less
  http01-proxyd status -o json | jq '.conditions[0]'
  http01-proxyd status -o prometheus | promtool check metrics
  http01-proxyd status -o json --watch --interval 10s | jq -r '.conditions[0].reason'`,
		Setup: func(flags *flag.FlagSet) func(context.Context, command.Streams) error {
			var f statusFlags
			flags.StringVar(&f.socket, "status-socket", defaultSocket, "unix `SOCKET` of the service")
			flags.StringVar(&f.format, "output", "text", "output `FORMAT`: text, json or prometheus")
			flags.StringVar(&f.format, "o", "text", "short for --output `FORMAT`")
			flags.BoolVar(&f.watch, "watch", false, "go on, until Ctrl-C")
			flags.BoolVar(&f.watch, "w", false, "short for --watch")
			flags.DurationVar(&f.interval, "interval", defaultInterval, fmt.Sprintf("with --watch, ask every `DURATION`, %s to %s", shortDuration(minInterval), shortDuration(maxInterval)))
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
			return command.UsageError("metrics are shown once: leave --watch out, or let Prometheus scrape metrics.listenAddress")
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
		return command.UsageError("--interval is for --watch: add that one, or leave this one out")
	}
	return nil
}

// shortDuration is a time span as a person writes it: 1h rather than 1h0m0s.
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
