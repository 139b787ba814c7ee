// SPDX-License-Identifier: Apache-2.0

// Command boulder validates HTTP-01 challenges with the code that Let's Encrypt runs: the
// package va of boulder, with a primary and five remote perspectives.
//
// It reads one challenge per line as JSON from its standard input and validates all at
// once. It prints one result per line in the same order. The DNS server must support DNS
// over HTTPS.
//
// It leaves out the gRPC between the perspectives, so that all send from one network. It
// accepts reserved addresses, because a lab has no others. It does not evaluate CAA records.
package main
