// SPDX-License-Identifier: Apache-2.0

// Package service evaluates the service on this host: its own report, its unit and its SELinux
// labels, its configuration, its ports and its nftables table. `http01-proxyd check`
// links it.
package service
