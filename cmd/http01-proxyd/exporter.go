// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"
	"os/signal"
	"syscall"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/command"
	"github.com/http01-proxyd/http01-proxyd/pkg/child"
	"github.com/http01-proxyd/http01-proxyd/pkg/exporter"
)

func exporterCommand() command.Command {
	return command.Command{
		Name:    "exporter",
		Summary: "serve metrics; \"run\" starts it",
		Help: `Serve metrics on metrics.listenAddress of the configuration. "run" starts it when
there is one, gives it the listening socket and starts another when it ends. It
has no capability and opens no file.`,
		Setup: func(*flag.FlagSet) func(context.Context, command.Streams) error {
			return func(ctx context.Context, _ command.Streams) error {
				// The keeper tells when to end: a service manager signals both.
				signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
				conn, err := child.Inherited()
				if err != nil {
					return err
				}
				return exporter.RunConfined(context.WithoutCancel(ctx), conn)
			}
		},
	}
}
