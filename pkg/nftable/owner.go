// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nftable

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ownerName says which process has the netfilter netlink socket with the given
// port id. The kernel gives the first socket of a process its pid as port id
// (netlink_autobind), so that process is named if it really holds the socket;
// otherwise the port id has to do.
func ownerName(port uint32) string {
	proc := fmt.Sprintf("/proc/%d", port)
	inode := socketInode(port)
	if inode == "" || !holdsSocket(proc, inode) {
		return fmt.Sprintf("the netlink socket with port id %d (see /proc/net/netlink, protocol %d)", port, unix.NETLINK_NETFILTER)
	}
	comm, err := os.ReadFile(filepath.Join(proc, "comm"))
	if err != nil {
		return fmt.Sprintf("process %d", port)
	}
	return fmt.Sprintf("process %d (%s)", port, strings.TrimSpace(string(comm)))
}

// socketInode finds the socket in the list of this thread's network namespace,
// whose columns are sk Eth Pid Groups Rmem Wmem Dump Locks Drops Inode
// (netlink_native_seq_show of net/netlink/af_netlink.c).
func socketInode(port uint32) string {
	f, err := os.Open("/proc/thread-self/net/netlink")
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	protocol, id := strconv.Itoa(unix.NETLINK_NETFILTER), strconv.FormatUint(uint64(port), 10)
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if col := strings.Fields(lines.Text()); len(col) >= 10 && col[1] == protocol && col[2] == id {
			return col[9]
		}
	}
	return ""
}

func holdsSocket(proc, inode string) bool {
	want := "socket:[" + inode + "]"
	entries, err := os.ReadDir(filepath.Join(proc, "fd"))
	if err != nil {
		return false
	}
	for _, e := range entries {
		if target, err := os.Readlink(filepath.Join(proc, "fd", e.Name())); err == nil && target == want {
			return true
		}
	}
	return false
}
