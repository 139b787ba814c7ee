// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/spf13/cobra"

	"github.com/http01-proxyd/http01-proxyd/pkg/host/loopback"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/nftables"
)

func cleanupCommand() *cobra.Command {
	var socket string
	c := &cobra.Command{
		Use: "cleanup", Short: "remove the nftables table of a service that was killed",
		Long: `Remove the nftables table "inet http01-proxyd" if no running process owns it: stop
the service first. If the service does not run, also remove MicroShift's internal
API address from lo (microshift.manageAdvertiseAddress). Requires CAP_NET_ADMIN.`,
		Example: "  systemctl stop http01-proxyd && http01-proxyd cleanup",
		RunE: func(c *cobra.Command, _ []string) error {
			return errors.Join(removeAddresses(c.Context(), c.OutOrStdout(), socket), removeTable(c.OutOrStdout()))
		},
	}
	c.Flags().StringVar(&socket, "status-socket", defaultSocket, "Unix `SOCKET` of the service")
	return c
}

func removeTable(out io.Writer) error {
	removed, err := nftables.Cleanup()
	if err != nil {
		return err
	}
	if removed {
		fmt.Fprintln(out, "removed table inet http01-proxyd")
	} else {
		fmt.Fprintln(out, "nothing to remove: no table inet http01-proxyd")
	}
	return nil
}

func removeAddresses(ctx context.Context, out io.Writer, socket string) error {
	if serviceIsRunning(ctx, socket) {
		return nil
	}
	removed, err := loopback.Cleanup()
	for _, a := range removed {
		fmt.Fprintf(out, "removed %v from lo\n", a)
	}
	return err
}

// serviceIsRunning reports whether a service accepts connections on its status socket.
// A process without permission to connect, such as http01-proxyd-table.service, runs
// only after the service ended.
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
