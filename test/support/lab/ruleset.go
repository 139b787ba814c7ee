// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	_ "embed"
	"fmt"
	"strings"
)

//go:embed node.nft
var nodeRules string

// ServiceTable is the nftables table that the service makes.
const ServiceTable = "inet http01-proxyd"

// Ruleset is the node's whole ruleset with handles and without counters, as
// text that can be compared.
func (n *Node) Ruleset(ctx context.Context) (string, error) {
	out, err := n.Run(ctx, "nft", "-s", "-a", "list", "ruleset")
	if err != nil {
		return "", fmt.Errorf("list the ruleset: %w", err)
	}
	return out, nil
}

// OtherTables is Ruleset without the service's table.
func (n *Node) OtherTables(ctx context.Context) (string, error) {
	all, err := n.Ruleset(ctx)
	if err != nil {
		return "", err
	}
	return withoutTable(all, ServiceTable), nil
}

// withoutTable cuts one table out of a listing: nft prints a table's first and
// last line without indentation.
func withoutTable(listing, table string) string {
	var kept strings.Builder
	inside := false
	for line := range strings.Lines(listing) {
		if strings.HasPrefix(line, "table "+table+" ") {
			inside = true
		}
		if !inside {
			kept.WriteString(line)
		}
		if strings.HasPrefix(line, "}") {
			inside = false
		}
	}
	return kept.String()
}

// HasServiceTable tells whether the service's table is in the node's kernel.
func (n *Node) HasServiceTable(ctx context.Context) (bool, error) {
	out, err := n.Run(ctx, "nft", "list", "tables")
	if err != nil {
		return false, fmt.Errorf("list the tables: %w", err)
	}
	for line := range strings.Lines(out) {
		if strings.TrimSpace(line) == "table "+ServiceTable {
			return true, nil
		}
	}
	return false, nil
}

// LoadNodeRules gives the node the tables that others have on a real one.
func (n *Node) LoadNodeRules(ctx context.Context) error {
	api := n.lab.API
	text := fmt.Sprintf("define API4 = %s\ndefine API6 = %s\n%s", api.V4, api.V6, nodeRules)
	if _, err := n.Input(ctx, text, "nft", "-f", "-"); err != nil {
		return fmt.Errorf("load the node's own tables: %w", err)
	}
	return nil
}
