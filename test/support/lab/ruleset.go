// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	_ "embed"
	"fmt"
	"net/netip"
	"strings"
)

//go:embed node.nft
var nodeRules string

// ServiceTable is the service's nftables table.
const ServiceTable = "inet http01-proxyd"

// Ruleset returns the node's ruleset with handles and without counters as comparable text.
func (n *Node) Ruleset(ctx context.Context) (string, error) {
	out, err := n.Run(ctx, "nft", "-s", "-a", "list", "ruleset")
	if err != nil {
		return "", fmt.Errorf("list the ruleset: %w", err)
	}
	return out, nil
}

// OtherTables returns Ruleset without the service's table.
func (n *Node) OtherTables(ctx context.Context) (string, error) {
	all, err := n.Ruleset(ctx)
	if err != nil {
		return "", err
	}
	return withoutTable(all, ServiceTable), nil
}

// withoutTable removes one table from a listing: nft prints the first and last line of a
// table without indentation.
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

// HasServiceTable reports whether the node's kernel holds the service's table.
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

// LoadNodeRules loads tables of other programs as on a real node.
func (n *Node) LoadNodeRules(ctx context.Context) error {
	// No packet is for the unspecified address, so the rules of a missing family match none.
	v4, v6 := netip.IPv4Unspecified(), netip.IPv6Unspecified()
	if n.lab.API.V4.IsValid() {
		v4 = n.lab.API.V4
	}
	if n.lab.API.V6.IsValid() {
		v6 = n.lab.API.V6
	}
	text := fmt.Sprintf("define API4 = %s\ndefine API6 = %s\n%s", v4, v6, nodeRules)
	if _, err := n.Input(ctx, text, "nft", "-f", "-"); err != nil {
		return fmt.Errorf("load the node's own tables: %w", err)
	}
	return nil
}
