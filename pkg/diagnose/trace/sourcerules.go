// SPDX-License-Identifier: Apache-2.0

//go:build linux

package trace

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/host/nftables/ruleset"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

const (
	listTimeout    = 5 * time.Second // for nft to list all rules
	maxListedRules = 3               // in the note
)

// DescribeSourceRules names the rules for arriving packets whose effect depends on the client's
// address, as nft lists them; the text is empty without any. No request of this cluster shows what
// they do to another client.
func DescribeSourceRules(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	// -t leaves out the contents of sets, which can be large.
	text, err := runNFT(ctx, "-t", "-j", "list", "ruleset")
	if err != nil {
		return "", err
	}
	var listed nftListing
	if err := json.Unmarshal([]byte(text), &listed); err != nil {
		return "", fmt.Errorf("read the output of nft -t -j list ruleset: %w", err)
	}
	certain, possible := listed.sourceRules()
	rules := slices.Concat(certain, possible)
	if len(rules) == 0 {
		return "", nil
	}
	var names []string
	for _, r := range rules[:min(len(rules), maxListedRules)] {
		names = append(names, fmt.Sprintf("%s handle %d", ChainName(report.TraceStep{Family: r.Family, Table: r.Table, Chain: r.Chain}), r.Handle))
	}
	if more := len(rules) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	verb := "depend"
	if len(certain) == 0 {
		verb = "may depend"
	}
	return fmt.Sprintf("not tested from here: rules that %s on the client's address (%s); http01-proxyd trace during a validation shows their effect", verb, strings.Join(names, ", ")), nil
}

// nftListing is what is needed of nft's JSON output (libnftables-json(5)).
type nftListing struct {
	NFTables []struct {
		Chain *struct {
			Family, Table, Name, Type, Hook string
		} `json:"chain"`
		Rule *nftRule `json:"rule"`
	} `json:"nftables"`
}

type nftRule struct {
	Family, Table, Chain string
	Handle               uint64
	Expr                 []any
}

// sourceRules returns the rules that depend on the source address of an arriving packet, and
// those that may depend on it.
func (l nftListing) sourceRules() (certain, possible []nftRule) {
	reachable := l.reachableChains()
	for _, item := range l.NFTables {
		r := item.Rule
		if r == nil || !reachable[[3]string{r.Family, r.Table, r.Chain}] || r.Table == ruleset.Name || isOwn(r.Table) {
			continue
		}
		switch depends, may := r.dependence(); {
		case depends:
			certain = append(certain, *r)
		case may:
			possible = append(possible, *r)
		}
	}
	return certain, possible
}

// reachableChains returns the base chains for arriving packets, and the chains to which their
// rules lead.
func (l nftListing) reachableChains() map[[3]string]bool {
	reachable := make(map[[3]string]bool)
	targets := make(map[[3]string][]string)
	var next [][3]string
	for _, item := range l.NFTables {
		if c := item.Chain; c != nil && slices.Contains([]string{ingress, prerouting, input}, c.Hook) {
			next = append(next, [3]string{c.Family, c.Table, c.Name})
		}
		if r := item.Rule; r != nil {
			key := [3]string{r.Family, r.Table, r.Chain}
			walk(r.Expr, func(name string, value any) {
				if fields, is := value.(map[string]any); is && (name == "jump" || name == "goto") {
					if target, is := fields["target"].(string); is {
						targets[key] = append(targets[key], target)
					}
				}
			})
		}
	}
	for ; len(next) > 0; next = next[1:] {
		if at := next[0]; !reachable[at] {
			reachable[at] = true
			for _, target := range targets[at] {
				next = append(next, [3]string{at[0], at[1], target})
			}
		}
	}
	return reachable
}

// harmlessMatches are matches of iptables that do not evaluate the source address.
func harmlessMatches() []string {
	return []string{
		"addrtype", "cgroup", "comment", "connmark", "conntrack", "dscp", "icmp", "icmp6", "length", "limit", "mark", "multiport",
		"owner", "physdev", "pkttype", "state", "statistic", "string", "tcp", "time", "tos", "ttl", "udp",
	}
}

// dependence reports whether the verdict of a rule depends on the source address, or may depend
// on it. Sources that cannot arrive from another host are left out.
func (r *nftRule) dependence() (depends, may bool) {
	decides := false
	for _, e := range r.Expr {
		statement, is := e.(map[string]any)
		if !is { // nft prints an anonymous chain as text
			decides = true
			continue
		}
		for name, value := range statement {
			switch name {
			case "match":
				if isLoopbackMatch(value) {
					return false, false
				}
			case "counter", "log", "comment":
			default:
				decides = decides || name != "xt"
			}
		}
		walk(e, func(name string, value any) {
			fields, _ := value.(map[string]any)
			switch name {
			case "payload":
				depends = depends || fields["field"] == "saddr"
			case "fib":
				flags, _ := fields["flags"].([]any)
				depends = depends || slices.Contains(flags, "saddr")
			case "xt":
				match, _ := fields["name"].(string)
				may = may || fields["type"] != "target" && !slices.Contains(harmlessMatches(), match)
			}
		})
	}
	return depends && decides, may && decides
}

// isLoopbackMatch reports whether a match selects packets of lo, or loopback addresses.
func isLoopbackMatch(match any) bool {
	fields, _ := match.(map[string]any)
	right, err := json.Marshal(fields["right"])
	if err != nil {
		return false
	}
	text := string(right)
	return strings.Contains(text, `"lo"`) || strings.Contains(text, `"127.0.0.`) || strings.Contains(text, `"::1"`)
}

// walk calls visit with each member of the objects in a JSON value.
func walk(value any, visit func(name string, value any)) {
	switch v := value.(type) {
	case []any:
		for _, element := range v {
			walk(element, visit)
		}
	case map[string]any:
		for name, member := range v {
			visit(name, member)
			walk(member, visit)
		}
	}
}
