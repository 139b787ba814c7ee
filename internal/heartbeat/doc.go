// SPDX-License-Identifier: Apache-2.0

// Package heartbeat combines the heartbeats of several loops into one. The controller sends it
// to systemd's watchdog, and the proxy sends it to the controller.
package heartbeat
