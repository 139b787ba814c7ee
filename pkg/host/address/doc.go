// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package address owns the view of the addresses that this host holds: a
// snapshot of them, and a signal that says when they may have changed.
//
// The two are kept apart on purpose. Events wake and snapshots decide: the
// kernel drops events when a receive buffer is full (ENOBUFS, netlink(7)), so
// what an event says is never looked at, and losing one only costs a further
// snapshot.
package address
