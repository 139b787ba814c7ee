// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"
	"os/signal"
	"syscall"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/command"
	"github.com/http01-proxyd/http01-proxyd/pkg/child"
	"github.com/http01-proxyd/http01-proxyd/pkg/probe"
	"github.com/http01-proxyd/http01-proxyd/pkg/probe/network"
)

func probeCommand() command.Command {
	return command.Command{
		Name:    probe.Command,
		Summary: "ask the network; \"check\" and \"run\" start it",
		Help: `Ask the network what "check", or the expiry watch of "run", wants to know. These
start it. It has no capability and opens no file.`,
		Setup: func(*flag.FlagSet) func(context.Context, command.Streams) error {
			return func(ctx context.Context, _ command.Streams) error {
				// Who has started it tells when to end: a terminal signals both.
				signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
				conn, err := child.Inherited()
				if err != nil {
					return err
				}
				return network.RunConfined(context.WithoutCancel(ctx), conn)
			}
		},
	}
}
