// SPDX-License-Identifier: Apache-2.0

// Package diagnose implements `http01-proxyd check`: it inspects this host and the
// network, and reports why challenges fail. It changes nothing. The texts come from
// package findings; child processes of package prober contact the network. Only `check`
// links it.
package diagnose
