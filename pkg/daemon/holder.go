// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// holder names whoever listens on a TCP port, as far as /proc tells: the
// process when this one may look at its descriptors, else its user.
func holder(port uint16) string {
	hint := fmt.Sprintf(" (see: ss -ltnp 'sport = :%d')", port)
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		uid, inode, found := listening(table, port)
		if !found {
			continue
		}
		if pid, comm, known := owner(inode); known {
			return fmt.Sprintf("process %d (%s)%s", pid, comm, hint)
		}
		return fmt.Sprintf("a process of user id %s%s", uid, hint)
	}
	return "another process" + hint
}

// listening finds a socket in state LISTEN in the table's format, which
// net/ipv4/tcp_ipv4.c (get_openreq4 and its kin) prints: the local address and
// port in hexadecimal, the state as two digits, the user id and the inode.
func listening(table string, port uint16) (uid, inode string, found bool) {
	const stateListen = "0A"
	f, err := os.Open(table)
	if err != nil {
		return "", "", false
	}
	defer f.Close()
	suffix := fmt.Sprintf(":%04X", port)
	for lines := bufio.NewScanner(f); lines.Scan(); {
		field := strings.Fields(lines.Text())
		if len(field) > 9 && field[3] == stateListen && strings.HasSuffix(field[1], suffix) {
			return field[7], field[9], true
		}
	}
	return "", "", false
}

// owner finds the process that holds a socket's inode.
func owner(inode string) (pid int, comm string, known bool) {
	want := "socket:[" + inode + "]"
	descriptors, err := filepath.Glob("/proc/[0-9]*/fd/*")
	if err != nil {
		return 0, "", false
	}
	for _, fd := range descriptors {
		target, err := os.Readlink(fd)
		if err != nil || target != want {
			continue
		}
		process := filepath.Dir(filepath.Dir(fd))
		name, err := os.ReadFile(filepath.Join(process, "comm"))
		if err != nil {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(process))
		if err != nil {
			continue
		}
		return pid, strings.TrimSpace(string(name)), true
	}
	return 0, "", false
}
