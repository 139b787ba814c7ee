// SPDX-License-Identifier: Apache-2.0

// Package cause is what a child process reports of an exchange that failed: a
// cause of the catalogue and bounded typed parameters, and no text of its own. The
// side with the privileges checks these and writes each sentence.
package cause
