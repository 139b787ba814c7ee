// SPDX-License-Identifier: Apache-2.0

// Command suites compiles the tests of all modules once, runs them concurrently, and prints
// which passed, failed and were skipped.
//
// `go test` runs the tests of a package one after another in one process. The suites mostly
// wait for VRRP, booting hosts and timeouts. This program splits a suite into processes,
// each with its own lab or network namespace, and runs as many of them as the machine has
// slots for. The fuzzers run at a low priority.
//
// One goroutine schedules. `go test -c` compiles a process, `go tool test2json` converts
// its output, and the kernel accounts its time. At the end a run fails when it finds
// something of its own: a process, network namespace, mount, control group or file. The
// program reports it and removes nothing.
package main
