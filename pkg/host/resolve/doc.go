// SPDX-License-Identifier: Apache-2.0

// Package resolve owns how this host finds the addresses of a name: its files say
// it, or say whom to ask (hosts(5), resolv.conf(5)). Somebody else asks the network.
package resolve
