// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/pkg/diagnose/simulator"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/nftables/ruleset"
)

// readings bounds how often the rulesets are read again because somebody has
// changed one meanwhile.
const readings = 3

// challengePort is the port of a VIP to which validators connect.
const challengePort = 80

// checkRuleset follows a challenge through the host's rulesets.
func checkRuleset(ctx context.Context, h *host) Result {
	vips := slices.Concat(h.held.Held, h.held.Standby)
	switch {
	case len(vips) == 0:
		return skipped("there is no API VIP that this service would answer on")
	case !h.root:
		return skipped("only a process with %s can read the rulesets: run it as root", capability)
	}
	var all obstacles
	var err error
	for range readings {
		var steady bool
		if all, steady, err = h.follow(ctx, vips, h.config.InternalPort); err == nil && steady {
			break
		}
	}
	if err != nil {
		return skipped("%v", err)
	}
	return found(all.findings(ctx, h.config.InternalPort),
		"nothing keeps connections to the API VIPs from port %d", h.config.InternalPort).but(all.unseen())
}

// unseen is what was not looked into.
func (a *obstacles) unseen() string {
	var parts []string
	if n := len(a.unclear); n > 0 {
		parts = append(parts, a.unclear[0])
		if n > 1 {
			parts[0] += fmt.Sprintf(", and %d more", n-1)
		}
	}
	if tables := legacyTables(); tables != "" {
		parts = append(parts, "iptables's legacy tables "+tables)
	}
	return strings.Join(parts, "; ")
}

// obstacle is a rule, or a policy, that keeps connections from the service.
type obstacle struct {
	id   findings.ID
	at   simulator.Outcome
	vips []netip.Addr
}

type obstacles struct {
	list    []obstacle
	unclear []string
}

// follow reads the rulesets once. steady is false when they were changed in
// between.
func (h *host) follow(ctx context.Context, vips []netip.Addr, port uint16) (all obstacles, steady bool, err error) {
	deadline, _ := ctx.Deadline()
	k, err := simulator.Open(deadline)
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
			VIP: vip, From: challengePort, To: port, Priority: ruleset.NATPriority,
			Table: simulator.Table{Family: simulator.INet, Name: ruleset.Name}, Link: h.linkOf(vip),
		}
		certain, possible, err := d.Check(k)
		if err != nil {
			return all, false, err
		}
		for _, f := range certain {
			all.add(vip, f)
		}
		for _, f := range possible {
			if f.Why&simulator.Opaque == 0 && !f.Local {
				all.add(vip, f)
			} else if text := fmt.Sprintf("%s in chain %s", place(f.Outcome), f.Place()); !slices.Contains(all.unclear, text) {
				all.unclear = append(all.unclear, text)
			}
		}
	}
	after, err := k.Generation()
	return all, before == after, err
}

// add puts obstacles of several VIPs, and of clients from outside and from this
// host, together.
func (a *obstacles) add(vip netip.Addr, f simulator.Finding) {
	id := obstacleOf(f)
	same := func(o obstacle) bool {
		return o.at.Base == f.Base && o.at.In == f.In && o.at.Handle == f.Handle && (o.id == id || f.Local)
	}
	i := slices.IndexFunc(a.list, same)
	if i < 0 {
		a.list = append(a.list, obstacle{id: id, at: f.Outcome, vips: []netip.Addr{vip}})
		return
	}
	if !slices.Contains(a.list[i].vips, vip) {
		a.list[i].vips = append(a.list[i].vips, vip)
	}
}

func obstacleOf(f simulator.Finding) findings.ID {
	switch {
	case f.Local:
		return findings.OwnClientsStray
	case f.Kind == simulator.Caught && f.Why == 0:
		return findings.NATBeforeUs
	case f.Kind == simulator.Caught:
		return findings.NATBeforeSome
	case f.Kind == simulator.Untracked && f.Why == 0:
		return findings.Untracked
	case f.Kind == simulator.Untracked:
		return findings.UntrackedSome
	case f.Why != 0:
		return findings.InputDropsSome
	case f.Port == challengePort:
		return findings.VIPPortDropped
	default:
		return findings.InputDrops
	}
}

func (a *obstacles) findings(ctx context.Context, port uint16) []findings.Finding {
	var matches []findings.Finding
	for _, o := range a.list {
		matches = append(matches, findings.Find(o.id,
			"chain", o.at.Place().String(), "rule", ruleText(ctx, o.at), "vip", list(o.vips), "port", strconv.Itoa(int(port))))
	}
	return matches
}

// linkOf is the link by which packets for a VIP come from outside: the one that
// has it, or the one that leads to it.
func (h *host) linkOf(vip netip.Addr) simulator.Link {
	w, err := h.wayTo(vip, h.addresses)
	if err != nil || w.link.Flags&net.FlagLoopback != 0 {
		return simulator.Link{} // then rules that ask for it are not looked into
	}
	return simulator.Link{Index: w.link.Index, Name: w.link.Name}
}

// legacyTables are those of the old iptables, which nftables does not show.
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
