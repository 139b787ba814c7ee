// SPDX-License-Identifier: Apache-2.0

// Package cluster owns a lab whose three masters are whole hosts: a real
// systemd, podman and keepalived on each, as the machine-config-daemon finds
// them, and a registry in the lab that they pull from.
//
// It lives in a host.Cell, with which it ends however that ends.
package cluster
