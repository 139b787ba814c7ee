// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/cli"
	"github.com/http01-proxyd/http01-proxyd/cmd/internal/terminal"
	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/chain"
)

func certificateCommand() *cobra.Command {
	var f nodeFlags
	c := &cobra.Command{
		Use: "certificate [NAME]", Short: "show how far the API's certificate has got, and what stops it",
		Long: `Follow the certificate of a name through the cluster: from the named certificates of the
APIServer through cert-manager's objects and the solver to the nodes. The command changes
nothing. NAME is the name of the API. Without it, the command takes the name from the
cluster's Infrastructure.

Each line shows an object, its state, the age of the state, and the reason in the words of
cert-manager or the CA. The lines of the nodes show the requests for the challenge. Below
are the causes with the commands that fix them. oc gets the Secrets, but prints no keys.

"Next renewal" is the time that cert-manager plans. A CA may reuse an authorization:
then the renewal needs no challenge, and proves nothing about the path.

The exit code is 3 if there is a problem. It is 4 if no problem was found, but objects
could not be read or a node did not report.`,
		Example: `  oc http01 certificate
  oc http01 certificate api.cluster.example.com
  oc http01 certificate -o json | jq '.objects[] | {kind, name, state, reason}'`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, names []string) error {
			name := strings.Join(names, " ")
			switch err := cli.ValidateName("NAME", name); {
			case len(names) > 1:
				return cli.UsageError(fmt.Sprintf("unexpected argument %q: give one name", names[1]))
			case len(names) > 0 && err != nil:
				return err
			}
			outputs, err := f.runOnEach(c.Context(), c.ErrOrStderr(), "http01-proxyd", "status", "-o", "json")
			if err != nil {
				return err
			}
			objects, err := chain.Read(c.Context(), f.get, name)
			if err != nil {
				return err
			}
			result := chain.Examine(objects, hostReports(outputs), time.Now())
			if err := f.out.Write(c.OutOrStdout(), result, terminal.Certificate(result)); err != nil {
				return err
			}
			return cli.OfOutcome(result.Outcome)
		},
	}
	f.add(c, cli.Text, cli.JSON, cli.YAML)
	return c
}

// get returns what "oc get" prints.
func (f *nodeFlags) get(ctx context.Context, args ...string) ([]byte, error) {
	return f.oc.Get(ctx, f.timeout, args...)
}
