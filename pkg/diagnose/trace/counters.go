// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// counterMeanings are the counters of the kernel (net/ipv4/proc.c, net/ipv6/proc.c) that grow
// when it drops a packet which no rule dropped.
var counterMeanings = map[string]string{ //nolint:gochecknoglobals // a constant table
	"TcpExtIPReversePathFilter":  "rp_filter: the route back to the source leads to another device",
	"IpExtInNoRoutes":            "no route: the kernel does not know the destination, or must not forward to it",
	"IpInAddrErrors":             "the destination address is not valid here (martian destination)",
	"IpInHdrErrors":              "a header is not valid",
	"IpInDiscards":               "no memory, or a rule of legacy iptables",
	"Ip6InNoRoutes":              "no IPv6 route",
	"Ip6InAddrErrors":            "the IPv6 destination is not valid here",
	"Ip6InDiscards":              "no memory, or a rule of legacy ip6tables",
	"TcpExtListenOverflows":      "the queue of the listening socket is full",
	"TcpExtListenDrops":          "the listening socket dropped a connection",
	"TcpExtTCPReqQFullDrop":      "the queue of incomplete connections is full",
	"TcpExtTCPReqQFullDoCookies": "the queue of incomplete connections is full; cookies are sent",
	"TcpInCsumErrors":            "a TCP checksum is wrong",
	"TcpExtTCPMD5NotFound":       "the listening socket requires MD5 signatures",
	"route in_martian_src":       "the source address is one of this host, or not valid (martian source)",
	"route in_martian_dst":       "the destination address is not valid (martian destination)",
	"conntrack drop":             "connection tracking dropped a packet: its table is full, or memory is missing",
	"conntrack insert_failed":    "connection tracking could not add a connection",
	"conntrack early_drop":       "connection tracking dropped another connection for lack of room",
}

// counters are values of the kernel's counters, by name.
type counters map[string]uint64

// readCounters reads the counters of this network namespace. It leaves out what it cannot read.
func readCounters() counters {
	all := make(counters)
	for _, name := range []string{"netstat", "snmp"} {
		all.addTables(readNet(name))
	}
	for line := range strings.Lines(readNet("snmp6")) {
		if fields := strings.Fields(line); len(fields) == 2 {
			all.add(fields[0], fields[1], 10)
		}
	}
	all.addProcessors("conntrack ", readNet("stat/nf_conntrack"))
	all.addProcessors("route ", readNet("stat/rt_cache"))
	return all
}

// addProcessors adds a line of names, and one of values for each processor.
func (c counters) addProcessors(group, text string) {
	var names []string
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); names == nil {
			names = fields
		} else {
			for i := range min(len(names), len(fields)) {
				c.add(group+names[i], fields[i], 16)
			}
		}
	}
}

// addTables adds pairs of lines: the names of a group, and their values.
func (c counters) addTables(text string) {
	lines := strings.Split(text, "\n")
	for i := 0; i+1 < len(lines); i += 2 {
		group, names, _ := strings.Cut(lines[i], ":")
		_, values, _ := strings.Cut(lines[i+1], ":")
		value := strings.Fields(values)
		for j, name := range strings.Fields(names) {
			if j < len(value) {
				c.add(group+name, value[j], 10)
			}
		}
	}
}

func (c counters) add(name, value string, base int) {
	if n, err := strconv.ParseUint(value, base, 64); err == nil && counterMeanings[name] != "" {
		c[name] += n
	}
}

// grown returns the counters that grew since before, by name.
func (c counters) grown(before counters) []report.KernelCounter {
	all := []report.KernelCounter{}
	for name, now := range c {
		if was := before[name]; now > was {
			all = append(all, report.KernelCounter{Name: name, Grown: now - was, Meaning: counterMeanings[name]})
		}
	}
	slices.SortFunc(all, func(a, b report.KernelCounter) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// ofSocket returns the counters of packets that reached a listening socket.
func ofSocket(all []report.KernelCounter) []report.KernelCounter {
	names := []string{
		"TcpExtListenOverflows", "TcpExtListenDrops", "TcpExtTCPReqQFullDrop", "TcpExtTCPMD5NotFound", "TcpInCsumErrors",
	}
	return slices.DeleteFunc(slices.Clone(all), func(c report.KernelCounter) bool {
		return !slices.Contains(names, c.Name)
	})
}

func readNet(name string) string {
	text, err := os.ReadFile("/proc/thread-self/net/" + name)
	if err != nil {
		return ""
	}
	return string(text)
}

// legacyTables are the tables of legacy iptables, which the kernel's trace does not show.
func legacyTables() string {
	var names []string
	for _, family := range []string{"ip", "ip6"} {
		if tables := strings.Fields(readNet(family + "_tables_names")); len(tables) > 0 {
			names = append(names, family+"tables "+strings.Join(tables, " "))
		}
	}
	return strings.Join(names, ", ")
}
