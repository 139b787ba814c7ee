// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"time"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/command"
	"github.com/http01-proxyd/http01-proxyd/pkg/status"
)

func statusCommand() command.Command {
	return command.Command{
		Name:    "status",
		Summary: "show what the running service knows",
		Help: `Ask the running service for its state, the VIPs that this host holds, its
table as the kernel has it, the ingress addresses and the last 20 challenges.
Only root may ask.

Examples:
  http01-proxyd status
  http01-proxyd status -o json | jq .conditions`,
		Setup: func(flags *flag.FlagSet) func(context.Context, command.Streams) error {
			socket := flags.String("status-socket", defaultSocket, "unix `SOCKET` of the service")
			format := flags.String("output", "text", "output `FORMAT`: text or json")
			flags.StringVar(format, "o", "text", "short for --output `FORMAT`")
			return func(ctx context.Context, s command.Streams) error {
				if *format != "text" && *format != "json" {
					return command.UsageError(fmt.Sprintf("output format %q: use text or json", *format))
				}
				report, err := status.Fetch(ctx, *socket)
				if err != nil {
					return err
				}
				if *format == "json" {
					e := json.NewEncoder(s.Out)
					e.SetIndent("", "  ")
					return e.Encode(report)
				}
				return report.WriteText(s.Out, time.Now())
			}
		},
	}
}
