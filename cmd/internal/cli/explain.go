// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/terminal"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// ExplainCommand returns the command of a program that explains findings. foundIDs is a shell command
// that prints the IDs of findings, for an example. commands returns the commands of an entry as the user of
// the program runs them.
func ExplainCommand(program, foundIDs string, commands func(findings.Entry) []string) *cobra.Command {
	var o Output
	var list bool
	c := &cobra.Command{
		Use: "explain ID...", Short: "explain a finding",
		Long: fmt.Sprintf(`Explain findings of "%s check" and causes in the journal (CAUSE=): their
meaning, their fix, and how to verify it. Requires neither the service nor a network nor root.`, program),
		Example: fmt.Sprintf(`  %[1]s explain vip-unassigned
  %[1]s explain --list
  %[2]s | sort -u | xargs %[1]s explain`, program, foundIDs),
		Args: func(_ *cobra.Command, ids []string) error {
			if list == (len(ids) > 0) {
				return UsageError("give the ID of a finding, or --list alone")
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
			entries, err := lookUp(ids)
			if err != nil {
				return err
			}
			explained := make([]terminal.Finding, len(entries))
			for i, e := range entries {
				explained[i] = explain(e, program, commands(e))
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
	o.Add(c, Text, Wide, JSON, YAML)
	return c
}

// lookUp returns the entries with these IDs, or all entries without an ID.
func lookUp(ids []string) (entries []findings.Entry, err error) {
	if len(ids) == 0 {
		return findings.All(), nil
	}
	for _, id := range ids {
		name := strings.Trim(id, "[]") // as check prints it
		e, known := findings.Lookup(findings.ID(name))
		if !known {
			var all []string
			for _, e := range findings.All() {
				all = append(all, string(e.ID))
			}
			hint := didYouMean(name, "", all)
			if hint == "" {
				hint = ": --list lists all"
			}
			return nil, UsageError(fmt.Sprintf("unknown finding %q", id) + hint)
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// explain describes an entry.
func explain(e findings.Entry, program string, commands []string) terminal.Finding {
	verification := fmt.Sprintf(`Run "%s check": it no longer reports the finding.`, program)
	switch {
	case e.JournalOnly:
		verification = fmt.Sprintf("Repeat the challenge: the journal has no new entry with CAUSE=%s.", e.ID)
	case e.ID == findings.VIPUnreachableFromHere, e.ID == findings.VIPTwoHosts: // of the service's own tests
		verification = `Run "http01-proxyd status" on the host: the row of the VIP shows "reachable from here".`
	case e.Check == findings.PreflightCheck:
		verification = `Run "oc http01 preflight" with new output of oc: it no longer reports the finding.`
	case e.Check == findings.IssuanceCheck:
		verification = `Run "oc http01 certificate": it no longer reports the finding.`
	case e.ClusterOnly:
		verification = `Run "oc http01 status": it no longer lists the finding.`
	}
	cause := ""
	if e.Exchange {
		cause = string(e.ID)
	}
	return terminal.Finding{
		ID: string(e.ID), Level: string(e.Level), Check: e.Check, Cause: cause, Symptom: e.Symptom,
		Message: e.Message + ".", Remediation: e.Remediation, Commands: commands,
		Example: e.Example, Verification: verification, Documentation: e.ID.URL(),
	}
}
