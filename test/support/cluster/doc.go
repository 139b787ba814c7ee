// SPDX-License-Identifier: Apache-2.0

// Package cluster owns a lab whose three control-plane nodes are whole hosts, with a real
// systemd, podman and keepalived as the machine-config-daemon finds them. The lab also contains
// a registry that they pull from.
//
// It lives in a host.Cell and ends with it.
package cluster
