// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/cli"
	operatorv1alpha1 "github.com/http01-proxyd/http01-proxyd/pkg/apis/operator/v1alpha1"
	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/condition"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// The kinds of document that condition prints.
const (
	kindClusterCondition = "ClusterCondition"
	kindHTTP01Proxy      = "HTTP01Proxy"
)

func conditionCommand() *cobra.Command {
	var f nodeFlags
	var format, kind string
	c := &cobra.Command{
		Use: "condition", Short: "print the condition of the cluster, for scripts and monitoring",
		Long: `Query the nodes as "oc http01 status" does, and print the condition
HTTP01ChallengeProxyReady of the cluster, in the form of Kubernetes'
metav1.Condition.

True      One host, or with BGP each holder, serves each API VIP (Serving), or no VIP
          must be held (NotRequired).
False     VIPHeldTwice, VIPNotHeld, or the reason and message of a host. That host
          holds a VIP without serving it, or found no VIP.
Unknown   A host has not answered (NotReachable), and no problem is known.

The message has the problems that "oc http01 status" lists. It ends with the number of
hosts that have reported. lastTransitionTime is the time of the change on the hosts.

--kind HTTP01Proxy prints the status of an HTTP01Proxy (operator.openshift.io/v1alpha1)
with two conditions. Ready is the condition above. Degraded is True if Ready is False,
or if a host that holds no VIP could not serve one. It is False while the service is
starting or disabled.

The exit code is 0 if the condition is True, 3 if it is False and 4 if it is Unknown.
With any other code, no condition was printed.`,
		Example: `  oc http01 condition
  oc http01 condition -o text --nodes master0,master1,master2

  # the conditions Ready and Degraded of an HTTP01Proxy
  oc http01 condition --kind HTTP01Proxy -o yaml`,
		RunE: func(c *cobra.Command, _ []string) error {
			outputs, err := f.runOnEach(c.Context(), c.ErrOrStderr(), "http01-proxyd", "status", "-o", "json")
			if err != nil {
				return err
			}
			hosts, now := hostReports(outputs), time.Now()
			conditions := []report.Condition{condition.Aggregate(hosts, now)}
			var document any = report.ClusterCondition{Header: report.NewHeader(kindClusterCondition), Condition: conditions[0]}
			if kind == kindHTTP01Proxy {
				conditions = condition.AggregateHTTP01Proxy(hosts, now)
				document = statusOfHTTP01Proxy(conditions)
			}
			if err := printConditions(c.OutOrStdout(), format, conditions, document); err != nil {
				return err
			}
			return exitWith(map[string]int{"True": cli.OK, "False": cli.Unhealthy, "Unknown": cli.Unknown}[conditions[0].Status])
		},
	}
	cli.OutputFlag(c, &format, cli.JSON, cli.YAML, cli.Text)
	cli.ChoiceFlag(c, &kind, "kind", "", "KIND", "kind of the document", kindClusterCondition, kindHTTP01Proxy)
	f.addSelection(c)
	return c
}

// statusOfHTTP01Proxy is an HTTP01Proxy with its status alone. Without a spec, an API server
// rejects it if it is applied as the whole object, which could enable another proxy.
func statusOfHTTP01Proxy(conditions []report.Condition) any {
	return map[string]any{
		"apiVersion": "operator.openshift.io/v1alpha1", "kind": kindHTTP01Proxy,
		"metadata": map[string]any{"name": operatorv1alpha1.NameCluster},
		"status":   map[string]any{"conditions": conditions},
	}
}

// printConditions writes each condition as a line of text, or the document.
func printConditions(w io.Writer, format string, conditions []report.Condition, document any) (err error) {
	if format != cli.Text {
		err = cli.WriteDocument(w, format, document)
	} else {
		for _, c := range conditions {
			since := c.LastTransitionTime.Format(time.RFC3339)
			_, lineErr := fmt.Fprintf(w, "%s=%s (%s) since %s: %s\n", c.Type, c.Status, c.Reason, since, c.Message)
			err = errors.Join(err, lineErr)
		}
	}
	if err != nil {
		return fmt.Errorf("cannot print the condition: %w", err)
	}
	return nil
}
