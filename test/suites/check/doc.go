// SPDX-License-Identifier: Apache-2.0

// Package check contains the lab tests of `http01-proxyd check`. Each test puts one fault into a
// healthy cluster of real parts and expects exactly one finding.
//
// Most faults are a faultCase in a table for runFaults: inject creates the fault, and onCleanup
// removes it. replaceHostFile replaces a file of the standby node's /etc, such as resolv.conf. Name
// such a file in lab.Node.CheckFlags, or check reads the file of this machine, and in
// writeHostFiles, which restores it. A failing test prints its findings, then the log of each program.
package check
