// SPDX-License-Identifier: Apache-2.0

// Package host owns whole Linux hosts that boot: a real systemd and its
// services on Debian bookworm, whose systemd 252 is that of RHEL 9, each in a
// container of systemd-nspawn with a network link of its own.
//
// Everything lives in a Cell: PID, network and mount namespaces that end with
// the process inside them, however that ends. Needs root, systemd-nspawn, and
// mmdebstrap for the first run.
package host
