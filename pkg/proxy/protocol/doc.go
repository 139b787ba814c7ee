// SPDX-License-Identifier: Apache-2.0

// Package protocol is what the controller and its child processes say to each other:
// commands and listening sockets over a socketpair, messages over a pipe.
//
// A child reads what the network sends, so the controller trusts no byte of it:
// messages are bounded in bytes, values and number, and what they hold is checked
// before it is believed ([News.Check]).
package protocol
