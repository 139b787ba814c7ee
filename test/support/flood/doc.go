// SPDX-License-Identifier: Apache-2.0

// Package flood owns the clients of a flood: hostile ones, each a process that
// holds as many connections as it may have descriptors, and a CA, whose
// perspectives ask for a challenge meanwhile. Each is a program of its own,
// which a program that calls [Main] becomes when its environment says so; it
// prints its report when it is told to end by SIGTERM.
package flood
