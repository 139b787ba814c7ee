// SPDX-License-Identifier: Apache-2.0

package exporter

// RunWithTimeout is Run with another timeout for reports.
var RunWithTimeout = run
