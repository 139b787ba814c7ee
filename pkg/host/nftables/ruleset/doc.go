// SPDX-License-Identifier: Apache-2.0

// Package ruleset owns the nftables table as a value: which sets, chains and
// rules there are for a port and the VIPs that the host holds.
//
// The table is described once, as data. String prints it in the language of
// nft(8), and package nftable encodes the same description for the kernel, so
// that what is shown and what is in force cannot drift apart.
package ruleset
