// SPDX-License-Identifier: Apache-2.0

// Package chaos tests that the host is right within a second of the last fault, whatever
// the faults were. A generator draws sequences of faults, a walk injects them into a rig
// (test/support/rig), and the host is compared with a pure model (package model). Honest
// validators and attackers send requests meanwhile.
package chaos
