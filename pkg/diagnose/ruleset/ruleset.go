// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/result"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/service"
	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/simulator"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/nftables/ruleset"
)

// maxReads bounds how often the rulesets are read again because they changed meanwhile.
const maxReads = 3

// challengePort is the port of a VIP to which validators connect.
const challengePort = 80

// Address is an address of this host and the link by which external packets for it arrive.
type Address struct {
	Addr netip.Addr
	Link simulator.Link
}

// Service is what clients of the service connect to.
type Service struct {
	VIPs         []Address // API VIPs, whose port 80 is redirected
	InternalPort uint16    // the target of the redirection
	Metrics      []Address // of the exporter; empty: metrics are not served
	MetricsPort  uint16
}

// obstacle is a rule or policy that keeps connections from the service.
type obstacle struct {
	id        findings.ID
	addresses []netip.Addr
	port      uint16
	outcome   simulator.Outcome
}

// list is the result of a simulation.
type list struct {
	items     []obstacle
	undecided []string
}

// Check simulates challenges to the VIPs and connections to the exporter in the rulesets of
// this host. ctx has a deadline.
func Check(ctx context.Context, s Service, privileged bool) result.Result {
	switch {
	case len(s.VIPs) == 0:
		return result.Nothing("this service would serve no API VIP")
	case !privileged:
		return result.Skip("only a process with %s can read the rulesets (run it as root)", service.Capability)
	}
	all, steady, err := s.simulate(ctx)
	for reads := 1; reads < maxReads && (err != nil || !steady); reads++ {
		all, steady, err = s.simulate(ctx)
	}
	if err != nil {
		return result.Skip("%v", err)
	}
	var matches []findings.Finding
	for _, o := range all.items {
		matches = append(matches, findings.New(o.id, findings.Values{
			"chain": o.outcome.Chain().String(), "rule": ruleText(ctx, o.outcome), "vip": result.JoinAddresses(o.addresses), "port": strconv.Itoa(int(o.port)),
		}))
	}
	return result.PassUnless(matches, "no rule keeps connections to the API VIPs from port %d", s.InternalPort).WithNotChecked(all.notChecked())
}

// notChecked describes what was not simulated.
func (a *list) notChecked() string {
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
func (s Service) simulate(ctx context.Context) (all list, steady bool, err error) {
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
	own := simulator.Table{Family: simulator.INet, Name: ruleset.Name}
	for _, vip := range s.VIPs {
		d := simulator.Redirect{VIP: vip.Addr, Port: challengePort, TargetPort: s.InternalPort, Priority: ruleset.NATPriority, OwnTable: own, Link: vip.Link}
		certain, possible, err := d.Simulate(k)
		if err != nil {
			return all, false, err
		}
		all.addChallenges(vip.Addr, s.InternalPort, certain, possible)
	}
	for _, at := range s.Metrics {
		certain, _, err := simulator.Direct(netip.AddrPortFrom(at.Addr, s.MetricsPort), own, at.Link).Simulate(k)
		if err != nil {
			return all, false, err
		}
		all.addMetrics(at.Addr, s.MetricsPort, certain)
	}
	after, err := k.Generation()
	return all, before == after, err
}

// addChallenges adds the obstacles for challenges at a VIP.
func (a *list) addChallenges(vip netip.Addr, port uint16, certain, possible []simulator.Obstacle) {
	for _, f := range certain {
		a.add(obstacleID(f), vip, port, f)
	}
	for _, f := range possible {
		if f.Uncertainty&simulator.NotSimulated == 0 && !f.Local {
			a.add(obstacleID(f), vip, port, f)
		} else if text := fmt.Sprintf("%s in chain %s", ruleOrPolicy(f.Outcome), f.Chain()); !slices.Contains(a.undecided, text) {
			a.undecided = append(a.undecided, text)
		}
	}
}

// addMetrics adds the rules that drop every connection to the exporter. A rule for some
// clients can be intended, because the exporter requires no authentication.
func (a *list) addMetrics(at netip.Addr, port uint16, certain []simulator.Obstacle) {
	for _, f := range certain {
		if !f.Local && f.Kind == simulator.Dropped {
			a.add(findings.MetricsPortDropped, at, port, f)
		}
	}
}

// add merges obstacles of several addresses, and of external and local clients.
func (a *list) add(id findings.ID, at netip.Addr, port uint16, f simulator.Obstacle) {
	same := func(o obstacle) bool {
		return o.outcome.BaseChain == f.BaseChain && o.outcome.ChainName == f.ChainName && o.outcome.Handle == f.Handle && (o.id == id || f.Local)
	}
	i := slices.IndexFunc(a.items, same)
	if i < 0 {
		a.items = append(a.items, obstacle{id: id, addresses: []netip.Addr{at}, port: port, outcome: f.Outcome})
		return
	}
	if !slices.Contains(a.items[i].addresses, at) {
		a.items[i].addresses = append(a.items[i].addresses, at)
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
