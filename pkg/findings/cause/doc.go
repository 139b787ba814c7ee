// SPDX-License-Identifier: Apache-2.0

// Package cause defines what a child process reports of a failed exchange: the cause of
// a finding, and bounded typed parameters. The reader validates the report and renders
// each sentence from package findings. Every process links it.
package cause
