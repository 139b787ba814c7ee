// SPDX-License-Identifier: Apache-2.0

//go:build linux

package trace

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
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

// DescribeSourceRules names the rules whose effect on challenges depends on the client's address,
// as nft lists them; the text is empty without any. Rules for other ports than 80 and the one to
// which it is redirected do not count. No request of this cluster shows what these rules do to
// another client.
func DescribeSourceRules(ctx context.Context, internalPort uint16) (string, error) {
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
	certain, possible := listed.sourceRules([]uint16{webPort, internalPort})
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
	Expr                 json.RawMessage // decoded one by one: 100,000 rules together take 300 MB
}

// place is a chain, and the direction of packets that it sees.
type place struct {
	family, table, chain string
	reply                bool
}

// ruleWalk follows packets from the base chains of their hooks.
type ruleWalk struct {
	rules   map[place][]*nftRule // of a chain
	chains  map[place][]string   // of a table, to which rules can lead
	next    []place
	seen    map[place]bool
	effects map[*nftRule]effect
}

// sourceRules returns the rules that depend on the client's address, and those that may depend on it.
func (l nftListing) sourceRules(ports []uint16) (certain, possible []nftRule) {
	w := ruleWalk{
		rules: make(map[place][]*nftRule), chains: make(map[place][]string), seen: make(map[place]bool), effects: make(map[*nftRule]effect),
	}
	for _, item := range l.NFTables {
		if c := item.Chain; c != nil && c.Table != ruleset.Name && !isOwn(c.Table) {
			w.addChain(place{family: c.Family, table: c.Table, chain: c.Name}, c.Type, c.Hook)
		}
		if r := item.Rule; r != nil {
			at := place{family: r.Family, table: r.Table, chain: r.Chain}
			w.rules[at] = append(w.rules[at], r)
		}
	}
	for ; len(w.next) > 0; w.next = w.next[1:] {
		if at := w.next[0]; !w.seen[at] {
			w.seen[at] = true
			w.visit(at, ports)
		}
	}
	for _, item := range l.NFTables {
		switch e := w.effects[item.Rule]; {
		case e.depends:
			certain = append(certain, *item.Rule)
		case e.may:
			possible = append(possible, *item.Rule)
		}
	}
	return certain, possible
}

// addChain adds a chain. Replies are translated like their requests, without a rule of nat.
func (w *ruleWalk) addChain(at place, kind, hook string) {
	switch hook {
	case "":
		table := place{family: at.family, table: at.table}
		w.chains[table] = append(w.chains[table], at.chain)
	case ingress, prerouting, input:
		w.next = append(w.next, at)
	case output, postrouting, egress:
		if at.reply = true; kind != "nat" {
			w.next = append(w.next, at)
		}
	}
}

// visit evaluates the rules of a chain, and adds the chains to which they lead.
func (w *ruleWalk) visit(at place, ports []uint16) {
	for _, r := range w.rules[place{family: at.family, table: at.table, chain: at.chain}] {
		e := r.effect(at.reply, ports)
		w.effects[r] = effect{depends: e.depends || w.effects[r].depends, may: e.may || w.effects[r].may}
		if table := (place{at.family, at.table, "", at.reply}); e.anywhere && !w.seen[table] {
			w.seen[table] = true
			e.targets = append(e.targets, w.chains[place{family: at.family, table: at.table}]...)
		}
		for _, target := range e.targets {
			w.next = append(w.next, place{at.family, at.table, target, at.reply})
		}
	}
}

// harmlessMatches are matches of iptables that do not evaluate the source address.
func harmlessMatches() []string {
	return []string{
		"addrtype", "cgroup", "comment", "connmark", "conntrack", "dscp", "icmp", "icmp6", "length", "limit", "mark", "multiport",
		"owner", "physdev", "pkttype", "state", "statistic", "string", "tcp", "time", "tos", "ttl", "udp",
	}
}

// effect is what a rule does with packets of challenges.
type effect struct {
	depends, may bool     // it depends on the client's address, or may depend on it
	targets      []string // chains to which it leads
	anywhere     bool     // it may lead to any chain of the table: nft -t does not list verdict maps
}

// effect evaluates a rule for one direction. Sources that cannot arrive from another host are left
// out, and so are rules that only count or log.
func (r *nftRule) effect(reply bool, ports []uint16) (e effect) {
	client, port, device := "saddr", "dport", "iif"
	if reply {
		client, port, device = "daddr", "sport", "oif"
	}
	var expressions []any
	if json.Unmarshal(r.Expr, &expressions) != nil { // nft prints a list
		return effect{}
	}
	decides := false
	for _, expression := range expressions {
		if text, is := expression.(string); is { // nft prints an anonymous chain as text
			decides, e.depends = true, e.depends || strings.Contains(text, " "+client+" ")
		}
		statement, _ := expression.(map[string]any)
		for name, value := range statement {
			fields, _ := value.(map[string]any)
			if name == "match" && isForOthers(fields, port, device, ports) {
				return effect{}
			}
			if name == "xt" {
				kind, _ := fields["name"].(string)
				isTarget := fields["type"] == "target"
				decides = decides || isTarget && !strings.HasSuffix(kind, "LOG")
				e.may = e.may || !isTarget && !slices.Contains(harmlessMatches(), kind)
				continue
			}
			decides = decides || !slices.Contains([]string{"match", "counter", "log", "limit", "quota"}, name)
			e.depends = e.depends || !isLoopback(fields["right"]) && mentions(statement, client)
		}
	}
	e.depends, e.may = e.depends && decides, e.may && decides
	e.follow(expressions)
	return e
}

// follow sets the chains to which expressions lead.
func (e *effect) follow(expressions any) {
	walk(expressions, func(name string, value any) {
		fields, _ := value.(map[string]any)
		target, is := fields["target"].(string)
		if is && (name == "jump" || name == "goto") {
			e.targets = append(e.targets, target)
		}
		_, isNamed := fields["data"].(string)
		e.anywhere = e.anywhere || name == "vmap" && isNamed
	})
}

// mentions reports whether an expression reads the client's address.
func mentions(expression any, client string) (found bool) {
	walk(expression, func(name string, value any) {
		fields, _ := value.(map[string]any)
		switch name {
		case "payload":
			isIP := fields["protocol"] == "ip" || fields["protocol"] == "ip6"
			found = found || isIP && fields["field"] == client || fields["base"] == "nh"
		case "fib":
			flags, _ := fields["flags"].([]any)
			found = found || slices.Contains(flags, any(client))
		case "ct":
			key, _ := fields["key"].(string)
			found = found || fields["dir"] == "original" && strings.HasSuffix(key, "saddr") ||
				fields["dir"] == "reply" && strings.HasSuffix(key, "daddr")
		}
	})
	return found
}

// isForOthers reports whether a match selects packets of lo, or of other protocols or ports only.
func isForOthers(match map[string]any, port, device string, ports []uint16) bool {
	left, _ := match["left"].(map[string]any)
	payload, _ := left["payload"].(map[string]any)
	meta, _ := left["meta"].(map[string]any)
	key, _ := meta["key"].(string)
	protocol, _ := payload["protocol"].(string)
	if slices.Contains([]string{"icmp", "icmpv6", "igmp", "sctp", "udp"}, protocol) {
		return true
	}
	switch right, isName := match["right"].(string); {
	case match["op"] != "==":
		return false
	case key == "l4proto", payload["field"] == "protocol", payload["field"] == "nexthdr":
		return isName && right != "tcp"
	case payload["field"] == port:
		return isWithout(match["right"], ports)
	default:
		return strings.HasPrefix(key, device) && right == "lo"
	}
}

// isWithout reports whether a number, a range or a set as nft prints them has none of the ports.
func isWithout(value any, ports []uint16) bool {
	has := func(from, to any) bool {
		low, isLow := from.(float64)
		high, isHigh := to.(float64)
		within := func(p uint16) bool { return float64(p) >= low && float64(p) <= high }
		return !isLow || !isHigh || slices.ContainsFunc(ports, within)
	}
	fields, _ := value.(map[string]any)
	if bounds, is := fields["range"].([]any); is && len(bounds) == 2 {
		return !has(bounds[0], bounds[1])
	}
	if elements, is := fields["set"].([]any); is {
		return !slices.ContainsFunc(elements, func(e any) bool { return !isWithout(e, ports) })
	}
	return !has(value, value)
}

// isLoopback reports whether an address, or all addresses of a prefix, range or set, are those of lo.
func isLoopback(value any) bool {
	switch v := value.(type) {
	case string:
		a, err := netip.ParseAddr(v)
		return err == nil && a.IsLoopback()
	case []any:
		return !slices.ContainsFunc(v, func(e any) bool { return !isLoopback(e) })
	case map[string]any:
		for name, member := range v {
			if name != "len" && !isLoopback(member) {
				return false
			}
		}
		return true
	}
	return false
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
