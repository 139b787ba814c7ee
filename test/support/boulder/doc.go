// SPDX-License-Identifier: Apache-2.0

// Command boulder validates HTTP-01 challenges with the code that Let's Encrypt runs: the
// package va of boulder, with a primary and five remote perspectives.
//
// It reads one challenge per line as JSON from its standard input, validates all at once, and
// prints one result per line in the same order. The DNS server must support DNS over HTTPS.
//
// All perspectives send from one network, without gRPC between them. It accepts reserved
// addresses, because a lab uses no others, and does not evaluate CAA records.
package main
