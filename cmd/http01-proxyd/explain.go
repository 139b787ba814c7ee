// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/cli"
	"github.com/http01-proxyd/http01-proxyd/cmd/internal/terminal"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

func explainCommand() *cobra.Command {
	var o cli.Output
	var list bool
	c := &cobra.Command{
		Use: "explain ID...", Short: "explain a finding",
		Long: `Explain findings of "http01-proxyd check" and causes in the journal (CAUSE=): what
they mean, how to fix them, and how to verify that. The command requires neither the
service nor a network nor root.`,
		Example: `  http01-proxyd explain vip-unassigned
  http01-proxyd explain --list
  journalctl -u http01-proxyd -o json | jq -r '.CAUSE // empty' | sort -u | xargs http01-proxyd explain`,
		Args: func(_ *cobra.Command, ids []string) error {
			if list == (len(ids) > 0) {
				return cli.UsageError("give the ID of a finding, or --list alone")
			}
			return nil
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) (all []cobra.Completion, _ cobra.ShellCompDirective) {
			for _, e := range findings.All() {
				all = append(all, cobra.CompletionWithDesc(string(e.ID), e.Symptom))
			}
			return all, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(c *cobra.Command, ids []string) error {
			explained, err := explainAll(ids)
			if err != nil {
				return err
			}
			document := terminal.FindingList{Header: report.NewHeader("FindingList"), Findings: explained}
			text := terminal.Findings(explained)
			if list {
				text = terminal.ListedFindings(explained)
			}
			return o.Write(c.OutOrStdout(), document, text)
		},
	}
	c.Flags().BoolVarP(&list, "list", "l", false, "list all findings")
	o.Add(c, cli.Text, cli.Wide, cli.JSON, cli.YAML)
	return c
}

// explainAll returns the findings with these IDs, or all findings without an ID.
func explainAll(ids []string) ([]terminal.Finding, error) {
	explained := []terminal.Finding{}
	for _, e := range findings.All() {
		if len(ids) == 0 {
			explained = append(explained, explain(e))
		}
	}
	for _, id := range ids {
		name := findings.ID(strings.Trim(id, "[]")) // as check prints it
		e, known := findings.Lookup(name)
		if !known {
			return nil, cli.UsageError(fmt.Sprintf("unknown finding %q; --list lists all", id))
		}
		explained = append(explained, explain(e))
	}
	return explained, nil
}

// explain describes an entry.
func explain(e findings.Entry) terminal.Finding {
	verification := fmt.Sprintf(`Run "http01-proxyd check": the finding is no longer in the line %q.`, e.Check)
	switch {
	case e.JournalOnly:
		verification = fmt.Sprintf("Repeat the challenge: the journal has no new entry with CAUSE=%s.", e.ID)
	case e.ID == findings.VIPUnreachableFromHere, e.ID == findings.VIPTwoHosts: // of the service's own tests
		verification = `Run "http01-proxyd status" on this host: the row of the VIP shows "reachable from here".`
	case e.Check == findings.PreflightCheck:
		verification = `Run "oc http01 preflight" with new output of oc: it no longer reports the finding.`
	case e.ClusterOnly:
		verification = `Run "oc http01 status": it no longer lists the finding.`
	}
	cause := ""
	if e.Exchange {
		cause = string(e.ID)
	}
	return terminal.Finding{
		ID: string(e.ID), Level: string(e.Level), Check: e.Check, Cause: cause, Symptom: e.Symptom,
		Message: e.Message + ".", Remediation: e.Remediation, Example: e.Example, Verification: verification,
		Documentation: e.ID.URL(),
	}
}
