// SPDX-License-Identifier: Apache-2.0

// Package control is what the keeper and the gate, two processes of one
// service, say to each other over a socketpair: the keeper gives orders and
// listening sockets, the gate tells what it has seen.
//
// The gate reads what the network sends, so the keeper trusts no word of it:
// words are bounded in size and number, and what is told of clients is checked
// before it is believed ([Challenge.Check]).
package control
