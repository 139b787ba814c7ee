// SPDX-License-Identifier: Apache-2.0

package obstacles

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/simulator"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/nftables/ruleset"
)

// maxReads bounds how often the rulesets are read again because they changed meanwhile.
const maxReads = 3

// challengePort is the port of a VIP to which validators connect.
const challengePort = 80

// VIP is an API VIP and the link by which external packets for it arrive.
type VIP struct {
	Addr netip.Addr
	Link simulator.Link
}

// Obstacle is a rule or policy that keeps connections from the service.
type Obstacle struct {
	ID      findings.ID
	VIPs    []netip.Addr
	outcome simulator.Outcome
}

// Chain is the chain of the rule or policy.
func (o Obstacle) Chain() string { return o.outcome.Chain().String() }

// Rule describes the rule or policy.
func (o Obstacle) Rule(ctx context.Context) string { return ruleText(ctx, o.outcome) }

// List is the result of a simulation.
type List struct {
	Items     []Obstacle
	undecided []string
}

// Find simulates challenges to VIPs that are redirected to a port. ctx has a deadline.
func Find(ctx context.Context, vips []VIP, port uint16) (all List, err error) {
	for range maxReads {
		var steady bool
		if all, steady, err = simulate(ctx, vips, port); err == nil && steady {
			break
		}
	}
	return all, err
}

// NotChecked describes what was not simulated.
func (a *List) NotChecked() string {
	var parts []string
	if n := len(a.undecided); n > 0 {
		parts = append(parts, a.undecided[0])
		if n > 1 {
			parts[0] += fmt.Sprintf(", and %d more", n-1)
		}
	}
	if tables := legacyTables(); tables != "" {
		parts = append(parts, "legacy iptables tables "+tables)
	}
	return strings.Join(parts, "; ")
}

// simulate simulates the current rulesets once. steady is false if they changed
// meanwhile.
func simulate(ctx context.Context, vips []VIP, port uint16) (all List, steady bool, err error) {
	deadline, _ := ctx.Deadline()
	k, err := simulator.OpenKernelRuleset(deadline)
	if err != nil {
		return all, false, err
	}
	defer func() { _ = k.Close() }()
	before, err := k.Generation()
	if err != nil {
		return all, false, err
	}
	for _, vip := range vips {
		d := simulator.Redirect{
			VIP: vip.Addr, Port: challengePort, TargetPort: port, Priority: ruleset.NATPriority,
			OwnTable: simulator.Table{Family: simulator.INet, Name: ruleset.Name}, Link: vip.Link,
		}
		certain, possible, err := d.Simulate(k)
		if err != nil {
			return all, false, err
		}
		for _, f := range certain {
			all.add(vip.Addr, f)
		}
		for _, f := range possible {
			if f.Uncertainty&simulator.NotSimulated == 0 && !f.Local {
				all.add(vip.Addr, f)
			} else if text := fmt.Sprintf("%s in chain %s", ruleOrPolicy(f.Outcome), f.Chain()); !slices.Contains(all.undecided, text) {
				all.undecided = append(all.undecided, text)
			}
		}
	}
	after, err := k.Generation()
	return all, before == after, err
}

// add merges obstacles of several VIPs, and of external and local clients.
func (a *List) add(vip netip.Addr, f simulator.Obstacle) {
	id := obstacleID(f)
	same := func(o Obstacle) bool {
		return o.outcome.BaseChain == f.BaseChain && o.outcome.ChainName == f.ChainName && o.outcome.Handle == f.Handle && (o.ID == id || f.Local)
	}
	i := slices.IndexFunc(a.Items, same)
	if i < 0 {
		a.Items = append(a.Items, Obstacle{ID: id, VIPs: []netip.Addr{vip}, outcome: f.Outcome})
		return
	}
	if !slices.Contains(a.Items[i].VIPs, vip) {
		a.Items[i].VIPs = append(a.Items[i].VIPs, vip)
	}
}

func obstacleID(f simulator.Obstacle) findings.ID {
	switch {
	case f.Local:
		return findings.LocalTrafficBlocked
	case f.Kind == simulator.Translated && f.Uncertainty == 0:
		return findings.EarlierNAT
	case f.Kind == simulator.Translated:
		return findings.EarlierNATForSome
	case f.Kind == simulator.Untracked && f.Uncertainty == 0:
		return findings.VIPPortUntracked
	case f.Kind == simulator.Untracked:
		return findings.VIPPortUntrackedForSome
	case f.Uncertainty != 0:
		return findings.InputDropsForSome
	case f.Port == challengePort:
		return findings.VIPPortDropped
	default:
		return findings.InputDrops
	}
}

// legacyTables are the tables of legacy iptables, which nftables does not show.
func legacyTables() string {
	var names []string
	for _, f := range []struct{ path, command string }{{"ip_tables_names", "iptables"}, {"ip6_tables_names", "ip6tables"}} {
		text, err := os.ReadFile("/proc/thread-self/net/" + f.path)
		if err != nil {
			continue
		}
		if tables := strings.Fields(string(text)); len(tables) > 0 {
			names = append(names, f.command+" "+strings.Join(tables, " "))
		}
	}
	return strings.Join(names, ", ")
}
