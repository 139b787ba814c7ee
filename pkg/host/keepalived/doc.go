// SPDX-License-Identifier: Apache-2.0

// Package keepalived reads the API and ingress VIPs of a cluster from keepalived.conf. The
// controller and `check` link it.
//
// It reads what OpenShift renders: comments, quoted strings, nested blocks, and include lines.
// Conditions (@id), definitions ($NAME, ~SEQ, ~LST) and include patterns that need keepalived's
// preprocessor are errors, because only keepalived can evaluate them. The same applies to
// unbalanced braces, unterminated quotes and entries that are no addresses. Blocks are
// recognised by their braces alone, so unknown blocks of later keepalived versions are skipped.
//
// OpenShift writes the file in place and does not rename it, so a reader can find an empty or
// partial file. Read returns what the file contains now. Reader keeps the last good
// configuration and decides when a removal takes effect.
package keepalived
