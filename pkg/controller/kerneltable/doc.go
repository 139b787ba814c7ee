// SPDX-License-Identifier: Apache-2.0

// Package kerneltable applies the service's nftables table, and reads it for reports. It owns the
// netlink socket that owns the table. The controller links it.
package kerneltable
