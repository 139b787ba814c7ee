// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/cli"
	"github.com/http01-proxyd/http01-proxyd/cmd/internal/page"
	"github.com/http01-proxyd/http01-proxyd/cmd/internal/terminal"
	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/chain"
	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/check"
	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/nodes"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

func checkCommand() *cobra.Command {
	var f nodeFlags
	var selection cli.CheckFlags
	c := &cobra.Command{
		Use: "check", Short: "find out on all control-plane nodes why challenges fail",
		Long: `Run "http01-proxyd check" on all control-plane nodes with oc debug, side by side, and
combine the results. The command changes nothing on the nodes. Equal findings of several
nodes are one. Each finding has its ID in brackets: "oc http01 explain ID" describes it.
-o wide adds the results of all checks. -o html writes a page for a browser without a
network.

The nodes send test requests to the API VIPs while the nodes that hold these follow the
packets. This begins when the check runs on all nodes, or their --timeout has passed.

Meanwhile, it reads the objects that "oc http01 certificate" shows, and reports what is
wrong with them. --only leaves them out.

The exit code is 3 if there is a problem. It is 4 if no problem was found, but a node
did not report or could not check everything that is necessary.`,
		Example: `  oc http01 check
  oc http01 check --nodes master0
  oc http01 check --only dns,ruleset
  oc http01 check -o html > check.html
  oc http01 check -o json | jq '.findings[] | {id, nodes}'`,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := selection.Validate(); err != nil {
				return err
			}
			command := commandWith(c, "name", "token", "only")
			selected, err := f.list(c.Context(), c.ErrOrStderr())
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(c.Context(), issuanceLimit)
			defer cancel()
			issuance := make(chan report.ClusterCertificate, 1)
			go func() { issuance <- f.examineIssuance(ctx, selection) }()
			begin, starting := time.Now(), time.Duration(0)
			outputs := f.oc.RunCoordinated(c.Context(), selected, f.timeout, func(d time.Duration) {
				starting = d
				showProgress(c.ErrOrStderr(), "the checks have started after %v", d.Round(100*time.Millisecond))
			}, command...)
			if c.Context().Err() != nil {
				return errors.New("interrupted")
			}
			examined := <-issuance
			result := clusterCheck(outputs, time.Now(), examined.Findings...)
			result.NotExamined = append(result.NotExamined, examined.NotExamined...)
			result.StartMs = float64(starting.Milliseconds())
			result.DurationMs = float64((time.Since(begin) - starting).Milliseconds())
			if f.out.Format == cli.HTML {
				_, err = c.OutOrStdout().Write(page.ForClusterCheck(selection.Name, result, time.Now()))
			} else {
				err = f.out.Write(c.OutOrStdout(), result, terminal.ClusterCheck(result))
			}
			if err != nil {
				return err
			}
			return cli.OfOutcome(result.Outcome)
		},
	}
	selection.Add(c, "what each node detects")
	f.add(c, cli.Text, cli.Wide, cli.JSON, cli.YAML, cli.HTML)
	return c
}

// issuanceLimit is the time to read the objects of the cluster. The checks take longer than a usual read.
const issuanceLimit = 30 * time.Second

// examineIssuance returns what "oc http01 certificate" finds without the nodes, and what could not be read. A cluster
// without a Certificate for the API has nothing to examine.
func (f *nodeFlags) examineIssuance(ctx context.Context, selection cli.CheckFlags) (none report.ClusterCertificate) {
	if len(selection.Only) > 0 {
		return none
	}
	objects, err := chain.Read(ctx, f.get, selection.Name)
	switch {
	case errors.Is(err, nodes.ErrUnknownKind):
		return none
	case err != nil:
		return report.ClusterCertificate{NotExamined: []string{err.Error()}}
	case !objects.HasCertificate():
		return none
	}
	return chain.Examine(objects, nil, time.Now())
}

func clusterCheck(outputs []nodes.Output, now time.Time, others ...report.ClusterProblem) report.ClusterCheck {
	all := make([]check.Node, len(outputs))
	for i, o := range outputs {
		all[i] = check.Read(o)
	}
	return check.Combine(all, now, others...)
}
