// SPDX-License-Identifier: Apache-2.0

package check

import (
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
)

// plainCommand matches a command of words that no shell interprets. A first word with = would set a variable.
var plainCommand = regexp.MustCompile(`^[A-Za-z0-9_./-]+( [A-Za-z0-9_./:=,@%+-]+)*$`)

// Commands returns the forms of the commands of a node's finding for a workstation. A command of oc has
// the administrator's rights, so the finding's entry must contain it.
func Commands(node string, id findings.ID, commands []string) (all []string) {
	entry, _ := findings.Lookup(id)
	for _, command := range commands {
		if strings.HasPrefix(command, "oc ") && !entry.HasCommand(command) {
			continue
		}
		if command = FromWorkstation(node, command); command != "" {
			all = append(all, command)
		}
	}
	return all
}

// CommandsFor returns the commands of a finding's entry for a workstation, for each node and VIP, each once.
func CommandsFor(id findings.ID, nodes []string, vips []netip.Addr) (all []string) {
	e, _ := findings.Lookup(id)
	addresses := texts(vips)
	if len(addresses) == 0 {
		addresses = []string{""}
	}
	for _, template := range e.Commands {
		for _, node := range nodes {
			for _, vip := range addresses {
				command, complete := findings.FillCommand(template, findings.Values{"node": node, "vip": vip})
				if !complete {
					continue
				}
				for _, c := range Commands(node, id, []string{command}) {
					if !slices.Contains(all, c) {
						all = append(all, c)
					}
				}
			}
		}
	}
	return all
}

// FromWorkstation returns the form of a command for a workstation. Commands of oc run there as they are, and
// oc http01 explains findings too.
func FromWorkstation(node, command string) string {
	if strings.HasPrefix(command, "oc ") {
		return command
	}
	if id, is := strings.CutPrefix(command, "http01-proxyd explain "); is && idForm.MatchString(id) {
		return "oc http01 explain " + id
	}
	return CommandOn(node, command)
}

// CommandOn returns the form of a node's command for a workstation. The node is not trusted: its shell
// runs the command, and the shell of the workstation does nothing else. The result is empty if the command is
// too long, or if a terminal would not show what it runs.
func CommandOn(node, command string) string {
	unprintable := func(r rune) bool { return r < ' ' || r > '~' }
	switch {
	case strings.TrimSpace(command) == "", len(command) > maxText, strings.ContainsFunc(command, unprintable):
		return ""
	case plainCommand.MatchString(command):
		return "oc debug node/" + node + " -- chroot /host " + command
	}
	return "oc debug node/" + node + " -- chroot /host sh -c " + findings.ShellWord(command)
}
