// SPDX-License-Identifier: Apache-2.0

// Package check has the lab tests of `http01-proxyd check`. Each test puts one fault into a
// healthy cluster of real parts and expects exactly one finding.
//
// Most faults are a faultCase in a table for runFaults: inject puts the fault in, and
// onCleanup removes it. replaceHostFile replaces a file of the standby node's /etc,
// such as resolv.conf. Two functions must name such a file: lab.Node.CheckFlags, because
// check otherwise reads the file of the machine that runs the tests, and writeHostFiles,
// which restores it. A test that fails prints its findings first, and then the log of each
// program.
package check
