// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/cli"
	"github.com/http01-proxyd/http01-proxyd/internal/child"
	"github.com/http01-proxyd/http01-proxyd/internal/startup"
	"github.com/http01-proxyd/http01-proxyd/internal/wire"
)

// childCommand is a hidden command that the controller or check starts as a child
// process, with a connection to it. run drops all privileges before it reads a byte.
func childCommand(name, purpose string, run func(context.Context, *wire.Child) error) *cobra.Command {
	return &cobra.Command{
		Use: name, Short: purpose, Hidden: true,
		Long: fmt.Sprintf(`Internal: %s. The controller ("http01-proxyd run") starts this process, passes
the sockets that it requires, and replaces it when it ends. The process has no
capability and opens no file. "http01-proxyd check" and "trace" also start a prober.`, purpose),
		RunE: func(c *cobra.Command, _ []string) error {
			// The parent process decides when the child ends. A service manager and
			// a terminal also send signals to the child, which are ignored.
			signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
			conn, err := child.Connect()
			if err != nil {
				return cli.UsageError(fmt.Sprintf("the controller starts this process, it cannot be started by hand: "+
					"run \"http01-proxyd run\", or \"http01-proxyd status\" for the running service (%v)", err))
			}
			startup.ReleaseMemory()
			return run(context.WithoutCancel(c.Context()), conn)
		},
	}
}
