// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"
	"os/signal"
	"syscall"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/command"
	"github.com/http01-proxyd/http01-proxyd/pkg/child"
	"github.com/http01-proxyd/http01-proxyd/pkg/frontdoor"
)

func gateCommand() command.Command {
	return command.Command{
		Name:    "gate",
		Summary: "hold the front door; \"run\" starts it",
		Help: `Hold the front door: read what clients send, and forward challenges. "run"
starts it, gives it its listening sockets and starts another when it ends. It
has no capability and opens no file.

Example:
  # which processes there are, and what the gate may do
  systemctl status http01-proxyd
  grep -E 'Cap|NoNewPrivs|Seccomp' /proc/"$(pgrep -f 'http01-proxyd gate')"/status`,
		Setup: func(*flag.FlagSet) func(context.Context, command.Streams) error {
			return func(ctx context.Context, _ command.Streams) error {
				// The keeper tells when to end: a service manager signals both.
				signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
				conn, err := child.Inherited()
				if err != nil {
					return err
				}
				return frontdoor.RunConfined(context.WithoutCancel(ctx), conn)
			}
		},
	}
}
