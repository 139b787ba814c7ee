// SPDX-License-Identifier: Apache-2.0

// Package wire carries the messages between a process and its child processes: framing,
// descriptor passing, bounds. The packages named protocol define the messages. Every
// process links it.
package wire
