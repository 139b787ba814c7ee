// SPDX-License-Identifier: Apache-2.0

//go:build linux

package socketowner

import (
	"fmt"
	"slices"
	"strings"
)

// maxSockets bounds how many of a port's listening sockets are looked at. It
// has more than one on different addresses, or when they share it by
// SO_REUSEPORT.
const maxSockets = 4

// DescribeTCPPort names whoever listens on a TCP port, on whatever address of either
// family, in the network namespace of the calling thread: the process, the
// unit, the pod, as far as this process may know, and a command that tells
// more. The text is one line and fits after "taken by". It is never empty:
// when nobody listens it says what else may have the port.
func DescribeTCPPort(port uint16) string {
	sockets, err := listListening(port)
	switch {
	case err != nil:
		return fmt.Sprintf("a process that could not be found out: %v (see: ss -ltnp 'sport = :%d')", err, port)
	case len(sockets) == 0:
		return fmt.Sprintf("a socket that does not listen, such as a connection that goes out from this port (see: ss -tanp 'sport = :%d')", port)
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

// IsListening reports whether anybody listens on a TCP port, on whatever address of
// either family, in the network namespace of the calling thread.
func IsListening(port uint16) (bool, error) {
	sockets, err := listListening(port)
	return len(sockets) > 0, err
}

// lookup keeps what one socket's holder took to be found: the next one's is
// often the same.
type lookup struct {
	cgroups   map[uint64]cgroupEntry
	processes []int // that were found
}

// cgroupEntry is a cgroup that tells something.
type cgroupEntry struct {
	info      cgroupInfo
	processes []int
}

// describeOwner names the holder of a socket, and a command that tells more of it.
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
		return fmt.Sprintf("%s, whose one process is %d", where, g.processes[0]), where.inspectCommand()
	case where.isKnown():
		return where.String(), where.inspectCommand()
	default:
		return fmt.Sprintf("a process of user id %d", s.uid), ""
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

// replaceUnprintable keeps a name that others have chosen from looking like more than
// one: it goes into a log line and a systemd notification.
func replaceUnprintable(name string) string {
	return strings.Map(func(r rune) rune {
		if ' ' <= r && r < 0x7f {
			return r
		}
		return '?'
	}, name)
}
