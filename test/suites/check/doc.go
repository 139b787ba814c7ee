// SPDX-License-Identifier: Apache-2.0

// Package check has the lab tests of `http01-proxyd check`. Each test puts one fault into a
// healthy cluster of real parts and expects exactly one finding.
package check
