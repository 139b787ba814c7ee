// SPDX-License-Identifier: Apache-2.0

// Package host owns Linux hosts that boot: a real systemd on Debian bookworm, in the same
// version as in RHEL 9 (252). Each is a systemd-nspawn container with its own network link.
//
// Everything is in a Cell: PID, network and mount namespaces that end with the process
// inside them. It needs root, systemd-nspawn, and mmdebstrap for the first run.
package host
