// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"time"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/command"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/loopback"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/nftables"
)

func cleanupCommand() command.Command {
	return command.Command{
		Name:    "cleanup",
		Summary: "remove a table that a dead service has left behind",
		Help: `Remove the nftables table "inet http01-proxyd" if no living process owns it.
The table of a running service stays: stop the service first. No other table is
touched. Where the service has put MicroShift's internal API address on lo
(microshift.manageAdvertiseAddress), that is taken away, too, unless the service
runs. It needs the capability CAP_NET_ADMIN.

Example:
  systemctl stop http01-proxyd && http01-proxyd cleanup`,
		Setup: func(flags *flag.FlagSet) func(context.Context, command.Streams) error {
			socket := flags.String("status-socket", defaultSocket, "unix `SOCKET` by which it is told whether the service runs")
			return func(ctx context.Context, s command.Streams) error {
				return errors.Join(removeAddresses(ctx, s, *socket), removeTable(s))
			}
		},
	}
}

func removeTable(s command.Streams) error {
	removed, err := nftables.Cleanup()
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

func removeAddresses(ctx context.Context, s command.Streams, socket string) error {
	if serviceIsRunning(ctx, socket) {
		return nil
	}
	removed, err := loopback.Cleanup()
	for _, a := range removed {
		fmt.Fprintf(s.Out, "removed %v from lo\n", a)
	}
	return err
}

// serviceIsRunning reports whether a service accepts connections on its status socket.
// A process without permission to connect, such as http01-proxyd-table.service, runs
// only after the service has ended.
func serviceIsRunning(ctx context.Context, socket string) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}
