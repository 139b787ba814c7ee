// SPDX-License-Identifier: Apache-2.0

// Package heartbeat combines the signs of life of several loops into one heartbeat. The controller sends
// it to systemd's watchdog, and the proxy sends it to the controller.
package heartbeat
