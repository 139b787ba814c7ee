// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package address owns the addresses and links of this host: snapshots of them, and a
// signal that they may have changed. The controller and check link it.
//
// Events only cause a snapshot, and decisions use only snapshots. The kernel drops
// events if a receive buffer is full (ENOBUFS, netlink(7)), so their content is ignored
// and a lost event costs one more snapshot.
package address
