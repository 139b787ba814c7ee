// SPDX-License-Identifier: Apache-2.0

// Package check holds the lab tests of `http01-proxyd check`: each puts one fault
// into a cluster that is well, with real parts, and wants exactly that one named.
package check
