// SPDX-License-Identifier: Apache-2.0

// Package child starts this program a second time, as a process without any
// capability that is connected to this one: whatever speaks with the network
// runs in such a process.
package child
