// SPDX-License-Identifier: Apache-2.0

//go:build linux

package socketowner

import (
	"fmt"
	"slices"
	"strings"
)

// maxSockets limits how many listening sockets of a port are examined. There can be several on
// different addresses or with SO_REUSEPORT.
const maxSockets = 4

// DescribeTCPPort names the owner of a TCP port, on any address of either family, in the
// network namespace of the calling thread. It names the process, unit or pod, as far as this
// process may know it, and a command that shows more. The text is one line, fits after "in
// use by" and is never empty. If no socket listens, it names what else can use the port.
func DescribeTCPPort(port uint16) (owner string, listens bool, err error) {
	sockets, err := listListening(port)
	switch {
	case err != nil:
		return fmt.Sprintf("an unknown process: %v (see: ss -lntp 'sport = :%d')", err, port), false, err
	case len(sockets) == 0:
		return fmt.Sprintf("a socket that does not listen, such as an outgoing connection from this port "+
			"(see: ss -tanp 'sport = :%d')", port), false, nil
	}
	var names []string
	for _, s := range sockets[:min(len(sockets), maxSockets)] {
		if name := s.describeOwner(); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return fmt.Sprintf("%s (see: ss -lntp 'sport = :%d')", strings.Join(names, " and "), port), true, nil
}

// describeOwner names the process, as far as this process may know it, and the unit or pod.
func (s listeningSocket) describeOwner() string {
	where := describeCgroup(s.cgroup)
	process, found := FindProcess(uint64(s.inode))
	switch {
	case found && where != "":
		return process.String() + " of " + where
	case found:
		return process.String()
	case where != "":
		return where
	default:
		return fmt.Sprintf("a process of user ID %d", s.uid)
	}
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
