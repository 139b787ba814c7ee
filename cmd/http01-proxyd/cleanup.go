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
		Summary: "remove the nftables table of a service that was killed",
		Help: `Remove the nftables table "inet http01-proxyd" if no running process owns it.
Stop a running service first: its table is not removed. Other tables are not
changed. If the service does not run, the command also removes MicroShift's
internal API address from lo (microshift.manageAdvertiseAddress). It requires
the capability CAP_NET_ADMIN.

Example:
  systemctl stop http01-proxyd && http01-proxyd cleanup`,
		Setup: func(flags *flag.FlagSet) func(context.Context, command.Streams) error {
			socket := flags.String("status-socket", defaultSocket, "Unix `SOCKET` of the service, to detect whether it runs")
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
		fmt.Fprintln(s.Out, "nothing to remove: no table inet http01-proxyd")
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
