// SPDX-License-Identifier: Apache-2.0

// Command suites compiles the tests of all modules once, runs them concurrently, and prints
// which passed, failed and were skipped.
//
// `go test` runs the tests of a package one after another in one process. The suites mostly wait
// for VRRP, booting hosts and timeouts, so this program splits a suite into processes with their
// own labs or network namespaces, and runs as many as the machine's slots allow. Fuzzers run at a
// low priority.
//
// One goroutine schedules. `go test -c` compiles a process, `go tool test2json` converts its
// output, and the kernel accounts its time. At the end a run fails if it left a process, network
// namespace, mount, control group or file behind. It reports these and removes nothing.
package main
