// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"
	"os/signal"
	"syscall"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/command"
	"github.com/http01-proxyd/http01-proxyd/internal/child"
	"github.com/http01-proxyd/http01-proxyd/internal/wire"
)

// childCommand is a command that the controller or check starts as a child process,
// with a connection to it. run drops all privileges before it reads a byte.
func childCommand(name, summary, help string, run func(context.Context, *wire.Child) error) command.Command {
	return command.Command{
		Name: name, Summary: summary, Help: help,
		Setup: func(*flag.FlagSet) func(context.Context, command.Streams) error {
			return func(ctx context.Context, _ command.Streams) error {
				// The parent process decides when the child ends. A service manager and
				// a terminal also send signals to the child, which are ignored.
				signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
				conn, err := child.Connect()
				if err != nil {
					return err
				}
				return run(context.WithoutCancel(ctx), conn)
			}
		},
	}
}
