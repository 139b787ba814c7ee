// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package nftables owns the nftables table in the kernel: it installs the table that a
// ruleset.Table describes, verifies it and removes it. The controller, `check` and `cleanup`
// link it.
//
// The table carries the kernel's owner flag (Linux 5.12), so that no other process can change
// or flush it and so that the kernel removes it when this process ends. The owner is one
// netlink socket, which a Conn keeps open.
package nftables
