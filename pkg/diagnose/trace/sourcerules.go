// SPDX-License-Identifier: Apache-2.0

//go:build linux

package trace

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const maxListedRules = 3 // in the note

// DescribeSourceRules names the rules that select packets by the client's address, by their text
// as nft lists them; the text is empty without any. Rules for other ports than 80 and the one to
// which it is redirected do not count. No request of this cluster shows what these rules do to
// another client.
func DescribeSourceRules(ctx context.Context, internalPort uint16) (string, error) {
	all, err := listRules(ctx)
	if err != nil {
		return "", err
	}
	names := all.sourceRules(webPort, internalPort)
	if len(names) == 0 {
		return "", nil
	}
	if more := len(names) - maxListedRules; more > 0 {
		names = append(names[:maxListedRules], fmt.Sprintf("%d more", more))
	}
	return fmt.Sprintf("not tested from here: rules that depend on the client's address (%s); "+
		"http01-proxyd trace during a validation shows their effect", strings.Join(names, ", ")), nil
}

// direction is how rules select requests, or replies.
type direction struct{ hooks, client, port *regexp.Regexp }

func newDirection(hooks, address, port string) direction {
	return direction{
		hooks: regexp.MustCompile("^type " + hooks + " "),
		client: regexp.MustCompile(`(?:ip6?|fib|\.|original) ` + address +
			`\b|@nh,|xt match "?(?:connlimit|geoip|hashlimit|iprange|recent|set)\b`),
		port: regexp.MustCompile(`(?:tcp|th) ` + port + ` (\{[^}]*\}|[0-9-]+) `),
	}
}

var (
	ruleTarget  = regexp.MustCompile(`(?:jump|goto) ([^\s,{}]+)`)
	ruleVerdict = regexp.MustCompile(`\b(?:accept|drop|reject|return|jump|goto|vmap|queue|dnat|snat|masquerade|redirect|` +
		`tproxy|notrack|synproxy|mark set|dup|fwd|xt target)\b`)
	// loopbackAddress matches sources that cannot arrive from another host.
	loopbackAddress = regexp.MustCompile(`ip6? [sd]addr (?:!= )?(?:127\.[0-9./-]+|::1|\{(?:,? 127\.[0-9./-]+)+ \}) `)
	// otherTraffic matches what selects packets of lo, or of another protocol than TCP.
	otherTraffic = regexp.MustCompile(`[io]if(?:name)? "lo" |(?:^|[^=,{] )(?:udp|icmp|icmpv6|ipv6-icmp|igmp|sctp) `)
)

// sourceRules returns the rules that depend on the client's address. It follows packets from the
// base chains of their hooks. Replies are translated like their requests, without a rule of nat.
func (l listing) sourceRules(ports ...uint16) (names []string) {
	listed := make(map[string]bool)
	for _, d := range []direction{
		newDirection(`\w+ hook (?:ingress|prerouting|input)`, "saddr", "dport"),
		newDirection(`(?:filter|route) hook (?:output|postrouting|egress)`, "daddr", "sport"),
	} {
		seen := make(map[string]bool)
		next := l.names(func(c *chain) bool { return d.hooks.MatchString(c.base) && !c.isOwn() })
		for ; len(next) > 0; next = next[1:] {
			at := next[0]
			c := l[at]
			if c == nil || seen[at] {
				continue
			}
			seen[at] = true
			for _, r := range c.rules {
				text := freeText.ReplaceAllString(r.text, "")
				if d.isForOthers(text, ports) {
					continue
				}
				name := fmt.Sprintf("%s handle %d", at, r.handle)
				if !listed[name] && d.client.MatchString(loopbackAddress.ReplaceAllString(text, "")) {
					listed[name] = true
					names = append(names, name)
				}
				next = append(next, l.targets(c.table, text)...)
			}
		}
	}
	return names
}

// targets returns the chains to which a rule leads: any of its table by a verdict map, whose
// elements nft -t does not list.
func (l listing) targets(table, rule string) (names []string) {
	if strings.Contains(rule, "vmap @") {
		return l.names(func(c *chain) bool { return c.table == table && c.base == "" })
	}
	for _, target := range ruleTarget.FindAllStringSubmatch(rule, -1) {
		names = append(names, table+" "+target[1])
	}
	return names
}

// isForOthers reports whether a rule decides nothing, or only about packets of lo or of other
// protocols or ports.
func (d direction) isForOthers(rule string, ports []uint16) bool {
	verdict := ruleVerdict.FindStringIndex(rule)
	if verdict == nil {
		return true
	}
	matches := rule[:verdict[0]]
	port := d.port.FindStringSubmatch(matches)
	return otherTraffic.MatchString(matches) || port != nil && isWithout(port[1], ports)
}

// isWithout reports whether a port, a range or a set as nft prints it contains none of the
// ports.
func isWithout(set string, ports []uint16) bool {
	for element := range strings.SplitSeq(strings.Trim(set, "{ }"), ", ") {
		low, high, isRange := strings.Cut(element, "-")
		if !isRange {
			high = low
		}
		from, err := strconv.ParseUint(low, 10, 16)
		to, toErr := strconv.ParseUint(high, 10, 16)
		within := func(p uint16) bool { return uint64(p) >= from && uint64(p) <= to }
		if err != nil || toErr != nil || slices.ContainsFunc(ports, within) {
			return false
		}
	}
	return true
}
