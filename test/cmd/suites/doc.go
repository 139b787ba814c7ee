// SPDX-License-Identifier: Apache-2.0

// Command suites compiles the tests of all modules of the repository once, runs
// them side by side, and prints what passed, failed and was skipped.
//
// `go test` runs the tests of a package one after another in one process. The
// suites here mostly wait: for VRRP, for booting hosts, for timeouts. This program
// splits a suite into processes, each with a lab or a network namespace of its
// own, and runs as many of them as the machine has slots for. The fuzzers run
// beside them at the lowest priority.
//
// One goroutine schedules; a process is compiled by `go test -c`, its output is
// converted by `go tool test2json`, and its time is the kernel's account of it.
// At the end a run fails when it finds something of its own: a process, network
// namespace, mount, control group or file. The program reports it and removes nothing.
package main
