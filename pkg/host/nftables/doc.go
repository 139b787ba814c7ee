// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package nftables owns the nftables table of the kernel: it puts the table that
// a ruleset.Table describes in place, verifies it and takes it away.
//
// The table carries the kernel's owner flag (Linux 5.12), so that nobody else
// can change or flush it, and so that it is gone when the process is, however it
// ends. It belongs to one netlink socket, which a Conn therefore keeps open.
package nftables
