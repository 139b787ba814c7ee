// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/cli"
	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/condition"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

func conditionCommand() *cobra.Command {
	var f nodeFlags
	var format string
	c := &cobra.Command{
		Use: "condition", Short: "print the condition of the cluster, for scripts and monitoring",
		Long: `Query the nodes as "oc http01 status" does, and print the condition
HTTP01ChallengeProxyReady of the cluster, in the form of Kubernetes'
metav1.Condition.

True      One host, or with BGP each holder, serves each API VIP (Serving), or no VIP
          must be held (NotRequired).
False     VIPHeldTwice, VIPNotHeld, or the reason and message of a host. That host
          holds a VIP without serving it, or found no VIP.
Unknown   A host has not answered (NotReachable, NotRunning), and no problem is known.

The message names the problems of VIPs and nodes. It ends with the number of hosts that
have reported. lastTransitionTime is the time of the change on the hosts.

The exit code is 0 if the condition is True, 3 if it is False and 4 if it is Unknown.
With any other code, no condition was printed.`,
		Example: `  oc http01 condition
  oc http01 condition -o text --nodes master0,master1,master2`,
		RunE: func(c *cobra.Command, _ []string) error {
			outputs, err := f.runOnEach(c.Context(), c.ErrOrStderr(), "http01-proxyd", "status", "-o", "json")
			if err != nil {
				return err
			}
			status := condition.ClusterStatus(hostReports(outputs), time.Now())
			if err := printCondition(c.OutOrStdout(), format, status.Condition); err != nil {
				return fmt.Errorf("cannot print the condition: %w", err)
			}
			switch status.Condition.Status {
			case "True":
				return nil
			case "False":
				return cli.ExitCode(cli.Unhealthy)
			default:
				return cli.ExitCode(cli.Unknown)
			}
		},
	}
	cli.OutputFlag(c, &format, cli.JSON, cli.YAML, cli.Text)
	f.addSelection(c)
	return c
}

// printCondition writes the condition as a line of text, or as a document.
func printCondition(w io.Writer, format string, c report.Condition) error {
	if format != cli.Text {
		document := report.ClusterCondition{Header: report.NewHeader("ClusterCondition"), Condition: c}
		return cli.WriteDocument(w, format, document)
	}
	since := c.LastTransitionTime.Format(time.RFC3339)
	_, err := fmt.Fprintf(w, "%s=%s (%s) since %s: %s\n", c.Type, c.Status, c.Reason, since, c.Message)
	return err
}
