// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/cli"
	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/disruption"
)

// policyFlags are the flags of policy.
type policyFlags struct {
	release, layered bool
	format           string
}

func policyCommand() *cobra.Command {
	var f policyFlags
	c := &cobra.Command{
		Use: "policy", Short: "print the entries of the node disruption policy",
		Long: `Print the entries of the cluster's node disruption policy, for server-side apply.
As long as they are in force, a change of the MachineConfigs does not reboot hosts.
Server-side apply keeps all other entries, and reports an entry of another field manager
for the same path or unit as a conflict. The script 10-policy/apply.sh of "oc http01
render" applies the entries, and waits until they are in force.`,
		Example: `  # show the result without changing the cluster
  oc http01 policy | oc apply --server-side --field-manager=http01-proxyd --dry-run=server -o yaml -f -

  # remove the entries, after the MachineConfigs have been deleted
  oc http01 policy --release | oc apply --server-side --field-manager=http01-proxyd -f -`,
		RunE: func(c *cobra.Command, _ []string) error {
			if f.layered && f.release {
				return cli.UsageError("--layered has no effect with --release: remove it")
			}
			return f.run(c.OutOrStdout())
		},
	}
	cli.OutputFlag(c, &f.format, cli.YAML, cli.JSON)
	c.Flags().BoolVar(&f.release, "release", false,
		"print an object that removes all entries of the field manager http01-proxyd")
	c.Flags().BoolVar(&f.layered, "layered", false,
		"print the entries for hosts whose operating system image contains the binary")
	return c
}

func (f policyFlags) run(out io.Writer) error {
	text := disruption.InstallerPolicy().Manifest()
	switch {
	case f.release:
		text = disruption.RemovalManifest()
	case f.layered:
		text = disruption.LayeredPolicy().Manifest()
	}
	if f.format == cli.JSON {
		var err error
		if text, err = sigsyaml.YAMLToJSON(text); err != nil {
			return err
		}
		text = append(text, '\n')
	}
	if _, err := out.Write(text); err != nil {
		return fmt.Errorf("cannot print the policy: %w", err)
	}
	return nil
}
