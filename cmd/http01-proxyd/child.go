// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/cli"
	"github.com/http01-proxyd/http01-proxyd/internal/child"
	"github.com/http01-proxyd/http01-proxyd/internal/startup"
	"github.com/http01-proxyd/http01-proxyd/internal/wire"
	"github.com/http01-proxyd/http01-proxyd/pkg/exporter"
	"github.com/http01-proxyd/http01-proxyd/pkg/prober/network"
	"github.com/http01-proxyd/http01-proxyd/pkg/proxy"
)

// runChild runs a child process that the controller or check has started, and returns its exit
// code. ran is false if args name no child process, or if nobody passed a connection to it. The
// commands of this program are not constructed, because they would stay in the memory of the child.
// The process drops all privileges before it reads a byte.
func runChild(args []string) (code int, ran bool) {
	if len(args) != 2 {
		return 0, false
	}
	run := map[string]func(context.Context, *wire.Child) error{
		child.Proxy: proxy.RunConfined, child.Prober: network.RunConfined, child.Exporter: exporter.RunConfined,
	}[args[1]]
	if run == nil {
		return 0, false
	}
	conn, err := child.Connect()
	if err != nil {
		fmt.Fprintf(os.Stderr, "http01-proxyd %s: %v\n", args[1], err)
		return 0, false
	}
	// The parent process decides when the child ends. A service manager and a terminal also
	// send signals to the child, which are ignored.
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	startup.ReleaseMemory()
	if err := run(context.Background(), conn); err != nil {
		fmt.Fprintf(os.Stderr, "http01-proxyd %s: %v\n", args[1], err)
		return cli.Failure, true
	}
	return cli.OK, true
}

// childCommand is the hidden command of a child process. It explains that nobody can start the
// process by hand.
func childCommand(name, purpose string) *cobra.Command {
	return &cobra.Command{
		Use: name, Short: purpose, Hidden: true,
		Long: fmt.Sprintf(`Internal: %s. The controller ("http01-proxyd run") starts this process, passes
the sockets that it requires, and replaces it when it ends. The process has no
capability and opens no file. "http01-proxyd check" and "trace" also start a prober.`, purpose),
		RunE: func(*cobra.Command, []string) error {
			return cli.UsageError("the controller starts this process, it cannot be started by hand: " +
				`run "http01-proxyd run", or "http01-proxyd status" for the running service`)
		},
	}
}
