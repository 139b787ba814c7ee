// SPDX-License-Identifier: Apache-2.0

//go:build linux

package socketowner

import (
	"fmt"
	"slices"
	"strings"
)

// maxSockets limits how many listening sockets of a port are examined. A port has several on
// different addresses or with SO_REUSEPORT.
const maxSockets = 4

// DescribeTCPPort names the owner of a listening TCP port, on any address of either family,
// in the network namespace of the calling thread. It names the process, unit or pod, as far
// as this process may know it, and a command that shows more. The text is one line, fits
// after "in use by" and is never empty. If no socket listens, it names what else can use the
// port.
func DescribeTCPPort(port uint16) string {
	sockets, err := listListening(port)
	switch {
	case err != nil:
		return fmt.Sprintf("an unknown process: %v (see: ss -ltnp 'sport = :%d')", err, port)
	case len(sockets) == 0:
		return fmt.Sprintf("a socket that does not listen, such as an outgoing connection from this port (see: ss -tanp 'sport = :%d')", port)
	}
	in := lookup{cgroups: make(map[uint64]cgroupEntry)}
	var names, commands []string
	for _, s := range sockets[:min(len(sockets), maxSockets)] {
		name, command := in.describeOwner(s)
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
		if command != "" && !slices.Contains(commands, command) {
			commands = append(commands, command)
		}
	}
	commands = append(commands, fmt.Sprintf("ss -ltnp 'sport = :%d'", port))
	return fmt.Sprintf("%s (see: %s)", strings.Join(names, " and "), strings.Join(commands, "; "))
}

// IsListening reports whether a socket listens on a TCP port, on any address of either
// family, in the network namespace of the calling thread.
func IsListening(port uint16) (bool, error) {
	sockets, err := listListening(port)
	return len(sockets) > 0, err
}

// lookup caches the results for one socket: the next socket often has the same owner.
type lookup struct {
	cgroups   map[uint64]cgroupEntry
	processes []int // found so far
}

// cgroupEntry is a cgroup with its parsed path and its processes.
type cgroupEntry struct {
	info      cgroupInfo
	processes []int
}

// describeOwner returns the name of a socket's owner and a command that shows more.
func (in *lookup) describeOwner(s listeningSocket) (name, command string) {
	g := in.cgroup(s.cgroup)
	where := g.info
	process, found := FindProcess(uint64(s.inode), slices.Concat(in.processes, g.processes)...)
	if found {
		in.processes = append(in.processes, process.PID)
	}
	switch {
	case found && where.isKnown():
		return process.String() + " of " + where.name(), where.inspectCommand()
	case found:
		return process.String(), ""
	case where.isKnown() && len(g.processes) == 1:
		return fmt.Sprintf("%s, whose only process is %d", where, g.processes[0]), where.inspectCommand()
	case where.isKnown():
		return where.String(), where.inspectCommand()
	default:
		return fmt.Sprintf("a process of user ID %d", s.uid), ""
	}
}

func (in *lookup) cgroup(id uint64) cgroupEntry {
	g, known := in.cgroups[id]
	if known {
		return g
	}
	if dir, path, found := findCgroup(id); found {
		g = cgroupEntry{parseCgroupPath(path), cgroupProcesses(dir)}
	}
	in.cgroups[id] = g
	return g
}

// replaceUnprintable replaces the unprintable characters of a foreign name, which becomes
// part of a log line and of a systemd notification.
func replaceUnprintable(name string) string {
	return strings.Map(func(r rune) rune {
		if ' ' <= r && r < 0x7f {
			return r
		}
		return '?'
	}, name)
}
