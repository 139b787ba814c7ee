// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nftables

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/pkg/host/socketowner"
)

// Errors for errors.Is.
var (
	// ErrUnsupported means that the kernel lacks nf_tables or a part of it.
	ErrUnsupported = errors.New("the kernel lacks a part of nf_tables that the table requires")
	// ErrDiffers means that the kernel's table is not the one that was applied.
	ErrDiffers = errors.New("the table in the kernel is not the one that was applied")
)

// ownerError means that another running process owns a table of our name.
func ownerError(port uint32) error {
	return fmt.Errorf("the table belongs to %s: stop that process first; only one process can serve a host",
		describeOwner(port))
}

// explain describes an error of an action for operators. Where needed it queries the kernel
// for the reason.
func (c *Conn) explain(act string, err error) error {
	switch {
	case errors.Is(err, unix.EPERM) && HasNetAdmin():
		if t, lookErr := c.getTable(); lookErr == nil && t != nil && t.Owner != 0 && t.Owner != c.sock.port {
			err = ownerError(t.Owner)
		}
	case isUnsupported(err):
		if rejected := c.tryTable(); isUnsupported(rejected) {
			return fmt.Errorf("%s: %w: %s (%w)", act, ErrUnsupported, requirements, rejected)
		}
	}
	return explain(act, err)
}

// explain is the part of Conn.explain that needs no connection.
func explain(act string, err error) error {
	switch {
	case (errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES)) && !HasNetAdmin():
		return fmt.Errorf("%s: this process lacks CAP_NET_ADMIN: run it as root, "+
			"or set AmbientCapabilities=CAP_NET_ADMIN in its unit and include it in CapabilityBoundingSet= (%w)", act, err)
	case errors.Is(err, unix.EPROTONOSUPPORT), errors.Is(err, unix.EAFNOSUPPORT):
		return fmt.Errorf("%s: %w: the kernel requires CONFIG_NETFILTER_NETLINK (modprobe nfnetlink), "+
			"and the unit's RestrictAddressFamilies= must contain AF_NETLINK (%w)", act, ErrUnsupported, err)
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
		return fmt.Errorf("%s: no file descriptor is free: increase LimitNOFILE= of the unit (%w)", act, err)
	}
	return fmt.Errorf("%s: %w", act, err)
}

// isUnsupported reports whether the kernel returned an error for something it does not know:
// a subsystem, family or flag, or an expression, chain type or set type whose module is
// missing (nfnetlink.c, nf_tables_api.c).
func isUnsupported(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EOPNOTSUPP) ||
		errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EAFNOSUPPORT)
}

// HasNetAdmin reports whether CAP_NET_ADMIN is in the effective set. It returns true if the
// set cannot be read, so that no message names a capability that is present.
func HasNetAdmin() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return true
	}
	return data[0].Effective&(1<<unix.CAP_NET_ADMIN) != 0
}

// describeOwner names the process that holds the netfilter netlink socket with a port ID. The
// kernel uses the PID as the port ID of a process's first socket (netlink_autobind), so that
// process is examined first. If no process is found, the text contains the port ID.
func describeOwner(port uint32) string {
	if inode, found := socketInode(port); found {
		if process, found := socketowner.FindProcess(inode, int(port), os.Getpid()); found {
			return process.String()
		}
	}
	return fmt.Sprintf("the netlink socket with port ID %d (see /proc/net/netlink, protocol %d)",
		port, unix.NETLINK_NETFILTER)
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
