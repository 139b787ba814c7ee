// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"
	"fmt"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/command"
	"github.com/http01-proxyd/http01-proxyd/pkg/nftable"
)

func cleanupCommand() command.Command {
	return command.Command{
		Name:    "cleanup",
		Summary: "remove a table that a dead service has left behind",
		Help: `Remove the nftables table "inet http01-proxyd" if no living process owns it.
The table of a running service stays: stop the service first. No other table is
touched. It needs the capability CAP_NET_ADMIN.

Example:
  systemctl stop http01-proxyd && http01-proxyd cleanup`,
		Setup: func(*flag.FlagSet) func(context.Context, command.Streams) error {
			return func(_ context.Context, s command.Streams) error {
				removed, err := nftable.Cleanup()
				if err != nil {
					return err
				}
				if removed {
					fmt.Fprintln(s.Out, "removed table inet http01-proxyd")
				} else {
					fmt.Fprintln(s.Out, "nothing to remove: there is no table inet http01-proxyd")
				}
				return nil
			}
		},
	}
}
