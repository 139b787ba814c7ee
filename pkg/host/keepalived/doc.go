// SPDX-License-Identifier: Apache-2.0

// Package keepalived owns the way from keepalived.conf to the API and ingress
// VIPs of a cluster.
//
// The file is read as keepalived 2.2 reads it: first a preprocessor that works
// line by line (comments, definitions, conditional lines, includes, a line of
// its own for each brace), then nested blocks. Where keepalived logs a problem
// and goes on, so does this package, and it notes what it left out
// (Discovery.Ignored). It is stricter in what would make an answer a guess:
// unbalanced braces, unterminated quotes, ~SEQ and ~LST, zones and IPv4-mapped
// addresses are errors. Blocks are told by their braces alone, so blocks that
// a later keepalived brings are passed over; a keepalived that does not know
// them gets lost there (lib/parser.c, process_stream).
//
// The file is written in place, not renamed (OpenShift renders it so), hence a
// reader meets empty and partial ones. Read says what is in the file now;
// Reader remembers the last good answer and decides when to believe a loss.
package keepalived
