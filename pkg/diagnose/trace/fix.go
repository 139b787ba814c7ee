// SPDX-License-Identifier: Apache-2.0

//go:build linux

package trace

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// plainName is the form of the names that nft and a shell accept without quotes. A bound in it
// would make a program of 100 KiB, which every process would keep.
var plainName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]*$`)

// isPlain reports whether a name needs no quotes. Longer names are not expected.
func isPlain(name string) bool { return len(name) <= 128 && plainName.MatchString(name) }

// Fix returns a command for a root shell that lets packets like this one pass the chain that
// decided about it, until its rules are loaded again. It is empty if no rule or policy decided,
// if the name of the table or chain is not plain, and for ports other than the VIP's port and
// the service's internal port: no command must open another service of this host.
func Fix(p report.TracedPacket, internalPort uint16) string {
	s, decided := Deciding(p)
	if !decided || s.Port != p.VIP.Port() && s.Port != internalPort {
		return ""
	}
	vip := p.VIP.Addr().Unmap()
	// After the redirect, the port alone identifies the packets: nobody else uses it.
	exact := s.Port == p.VIP.Port()
	switch {
	case s.Table == "firewalld" && s.Hook == "input" && !p.Reply:
		return fmt.Sprintf("firewall-cmd %s--add-port=%d/tcp", zone(s), s.Port)
	case isIptables(s):
		program, table, address, port := "iptables", "", "", "--dport"
		if s.Family == "ip6" {
			program = "ip6tables"
		}
		if s.Table != "filter" {
			table = " -t " + s.Table
		}
		if p.Reply {
			port = "--sport"
		}
		switch {
		case exact && p.Reply:
			address = " -s " + vip.String()
		case exact:
			address = " -d " + vip.String()
		}
		return fmt.Sprintf("%s%s -I %s%s -p tcp %s %d -j ACCEPT", program, table, s.Chain, address, port, s.Port)
	case !isPlain(s.Table) || !isPlain(s.Chain):
		return ""
	}
	side, protocol, address := "d", "ip", ""
	if p.Reply {
		side = "s"
	}
	if vip.Is6() {
		protocol = "ip6"
	}
	if exact {
		address = fmt.Sprintf("%s %saddr %v ", protocol, side, vip)
	}
	return fmt.Sprintf("nft insert rule %s %s %s %stcp %sport %d accept",
		s.Family, s.Table, s.Chain, address, side, s.Port)
}

// zoneRule matches the rule by which firewalld passes packets to the chain of a zone.
var zoneRule = regexp.MustCompile(`goto filter_IN_([A-Za-z0-9_-]+)$`)

// zone returns the option for the zone of firewalld that a packet passed; empty for the default one.
func zone(s report.TraceStep) string {
	for _, rule := range s.Passed {
		if name := zoneRule.FindStringSubmatch(rule.Rule); name != nil {
			return "--zone=" + name[1] + " "
		}
	}
	return ""
}

// isIptables reports whether iptables-nft manages the table of a step: nft users write the
// names of base chains in lower case.
func isIptables(s report.TraceStep) bool {
	tables := " filter raw mangle nat security "
	chains := " PREROUTING INPUT FORWARD OUTPUT POSTROUTING "
	return (s.Family == "ip" || s.Family == "ip6") &&
		strings.Contains(tables, " "+s.Table+" ") && strings.Contains(chains, " "+s.Chain+" ")
}
