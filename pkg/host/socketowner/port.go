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

// OfTCPPort names whoever listens on a TCP port, on whatever address of either
// family, in the network namespace of the calling thread: the process, the
// unit, the pod, as far as this process may know, and a command that tells
// more. The text is one line and fits after "taken by". It is never empty:
// when nobody listens it says what else may have the port.
func OfTCPPort(port uint16) string {
	sockets, err := listening(port)
	switch {
	case err != nil:
		return fmt.Sprintf("a process that could not be found out: %v (see: ss -ltnp 'sport = :%d')", err, port)
	case len(sockets) == 0:
		return fmt.Sprintf("a socket that does not listen, such as a connection that goes out from this port (see: ss -tanp 'sport = :%d')", port)
	}
	in := inquiry{cgroups: make(map[uint64]group)}
	var names, commands []string
	for _, s := range sockets[:min(len(sockets), maxSockets)] {
		name, command := in.whose(s)
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

// Listens reports whether anybody listens on a TCP port, on whatever address of
// either family, in the network namespace of the calling thread.
func Listens(port uint16) (bool, error) {
	sockets, err := listening(port)
	return len(sockets) > 0, err
}

// inquiry keeps what one socket's holder took to be found: the next one's is
// often the same.
type inquiry struct {
	cgroups   map[uint64]group
	processes []int // that were found
}

// group is a cgroup that tells something.
type group struct {
	place   place
	members []int
}

// whose names the holder of a socket, and a command that tells more of it.
func (in *inquiry) whose(s socket) (name, command string) {
	g := in.group(s.cgroup)
	where := g.place
	process, found := WithSocket(uint64(s.inode), slices.Concat(in.processes, g.members)...)
	if found {
		in.processes = append(in.processes, process.PID)
	}
	switch {
	case found && where.known():
		return process.String() + " of " + where.name(), where.command()
	case found:
		return process.String(), ""
	case where.known() && len(g.members) == 1:
		return fmt.Sprintf("%s, whose one process is %d", where, g.members[0]), where.command()
	case where.known():
		return where.String(), where.command()
	default:
		return fmt.Sprintf("a process of user id %d", s.uid), ""
	}
}

func (in *inquiry) group(id uint64) group {
	g, known := in.cgroups[id]
	if known {
		return g
	}
	if dir, path, found := cgroupOf(id); found {
		g = group{placeOf(path), membersOf(dir)}
	}
	in.cgroups[id] = g
	return g
}

// printable keeps a name that others have chosen from looking like more than
// one: it goes into a log line and a systemd notification.
func printable(name string) string {
	return strings.Map(func(r rune) rune {
		if ' ' <= r && r < 0x7f {
			return r
		}
		return '?'
	}, name)
}
