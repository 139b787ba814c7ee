// SPDX-License-Identifier: Apache-2.0

// Package prober asks questions of the network through a child process without
// any capability. The questions and answers are here, and the side that asks;
// package network, which the child runs, finds the answers. Requests that require a
// capability are sent from here, and the child parses what comes back.
package prober
