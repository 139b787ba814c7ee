// SPDX-License-Identifier: Apache-2.0

// Package ruleset describes the nftables table as a value: its sets, chains and rules for a
// port and the VIPs that the host holds. The controller and `check` link
// it.
//
// The table is described once. String prints it in nft(8) syntax, and package nftables
// encodes the same description for the kernel, so the printed and the installed table cannot
// differ.
package ruleset
