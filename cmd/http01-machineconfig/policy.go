// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"
	"fmt"
	"io"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/command"
	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/disruption"
)

// policyFlags are the flags of policy.
type policyFlags struct {
	release, layered bool
}

func policyCommand() command.Command {
	return command.Command{
		Name:    "policy",
		Summary: "print the entries of the node disruption policy",
		Help: `Print the entries of the cluster's node disruption policy, for server-side apply.
With them, a change of the MachineConfigs does not reboot hosts. Server-side apply
keeps all other entries, and reports an entry of another field manager for the same
path or unit as a conflict.

Examples:
  # add or update the entries
  http01-machineconfig policy | oc apply --server-side --field-manager=http01-proxyd -f -

  # show the result without changing the cluster
  http01-machineconfig policy | oc apply --server-side --field-manager=http01-proxyd --dry-run=server -o yaml -f -

  # remove the entries, after the MachineConfigs have been deleted
  http01-machineconfig policy --release | oc apply --server-side --field-manager=http01-proxyd -f -`,
		Setup: func(flags *flag.FlagSet) func(context.Context, command.Streams) error {
			var f policyFlags
			flags.BoolVar(&f.release, "release", false, "print an object that removes all entries of the field manager http01-proxyd")
			flags.BoolVar(&f.layered, "layered", false, "print the entries for hosts whose operating system image contains the binary")
			return func(_ context.Context, s command.Streams) error {
				if f.layered && f.release {
					return command.UsageError("--layered has no effect with --release: remove it")
				}
				return f.run(s.Out)
			}
		},
	}
}

func (f policyFlags) run(out io.Writer) error {
	manifest := disruption.InstallerPolicy().Manifest
	switch {
	case f.release:
		manifest = disruption.RemovalManifest
	case f.layered:
		manifest = disruption.LayeredPolicy().Manifest
	}
	text, err := manifest()
	if err != nil {
		return err
	}
	if _, err := out.Write(text); err != nil {
		return fmt.Errorf("cannot print the policy: %w", err)
	}
	return nil
}
