// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nftables

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/pkg/host/socketowner"
)

// describeOwner names the process that has the netfilter netlink socket with a port ID. The
// kernel uses the PID as the port ID of a process's first socket (netlink_autobind), so that
// process is examined first. If no process is found, the text contains the port ID.
func describeOwner(port uint32) string {
	if inode, found := socketInode(port); found {
		if process, found := socketowner.FindProcess(inode, int(port), os.Getpid()); found {
			return process.String()
		}
	}
	return fmt.Sprintf("the netlink socket with port ID %d (see /proc/net/netlink, protocol %d)", port, unix.NETLINK_NETFILTER)
}

// socketInode finds the socket in the list of this thread's network namespace. Its columns
// are sk Eth Pid Groups Rmem Wmem Dump Locks Drops Inode (netlink_native_seq_show of
// net/netlink/af_netlink.c).
func socketInode(port uint32) (inode uint64, found bool) {
	f, err := os.Open("/proc/thread-self/net/netlink")
	if err != nil {
		return 0, false
	}
	defer func() { _ = f.Close() }()
	protocol, id := strconv.Itoa(unix.NETLINK_NETFILTER), strconv.FormatUint(uint64(port), 10)
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if col := strings.Fields(lines.Text()); len(col) >= 10 && col[1] == protocol && col[2] == id {
			inode, err := strconv.ParseUint(col[9], 10, 64)
			return inode, err == nil
		}
	}
	return 0, false
}
