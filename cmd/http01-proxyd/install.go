// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/cli"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/install"
)

// installCommand is a hidden command that systemd/http01-proxyd-install runs.
func installCommand() *cobra.Command {
	var candidate string
	c := &cobra.Command{
		Use: "install", Short: "install the binary of a container image", Hidden: true,
		Long: `Internal: replace the installed binary, restart the service, and restore the
previous binary if the service does not become ready. http01-proxyd-install.service
runs this command, and its MachineConfig has the image and the checksums.`,
		RunE: func(c *cobra.Command, _ []string) error {
			o := install.Options{Candidate: candidate, Getenv: os.Getenv, Log: c.ErrOrStderr()}
			if o.Image() == "" {
				return cli.UsageError("http01-proxyd-install.service runs this command, it cannot be started by hand: " +
					"run \"systemctl restart http01-proxyd-install\"")
			}
			if code := install.Run(c.Context(), o); code != 0 {
				return cli.ExitCode(code)
			}
			return nil
		},
	}
	c.Flags().StringVar(&candidate, "candidate", "", "`FILE` with the binary of the image (default: none)")
	return c
}
