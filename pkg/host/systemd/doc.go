// SPDX-License-Identifier: Apache-2.0

// Package systemd communicates with the service manager: sd_notify messages, the watchdog, the file
// descriptor store, the journal, and queries and jobs over the system bus. The controller, `check` and
// `install` link it.
// Without systemd, all notifications are dropped and nothing else changes.
package systemd
