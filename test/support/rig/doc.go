// SPDX-License-Identifier: Apache-2.0

// Package rig owns the smallest network in which the service works: one host, the clients and the
// ingress. It is for suites that run for hours, many of them side by side, without keepalived: the
// suite writes keepalived.conf and adds addresses itself. The service runs under a fake systemd
// with its descriptor store and Restart=always.
package rig
