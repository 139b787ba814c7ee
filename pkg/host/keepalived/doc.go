// SPDX-License-Identifier: Apache-2.0

// Package keepalived reads the API and ingress VIPs of a cluster from keepalived.conf. The
// controller and `check` link it.
//
// The file is parsed as keepalived 2.2 parses it. A preprocessor handles comments,
// definitions, conditional lines and includes, and puts each brace on its own line. Then
// nested blocks are parsed. Where keepalived logs a problem and continues, this package does
// the same and records what it ignored (Discovery.Ignored). It is stricter where a guess
// would be needed: unbalanced braces, unterminated quotes, ~SEQ and ~LST, zones and
// IPv4-mapped addresses are errors. Blocks are recognised by their braces alone, so unknown
// blocks of later keepalived versions are skipped. A keepalived that does not know such a
// block misparses it (lib/parser.c, process_stream).
//
// OpenShift writes the file in place and does not rename it, so a reader can find an empty or
// partial file. Read returns what the file contains now. Reader keeps the last good
// configuration and decides when a removal takes effect.
package keepalived
