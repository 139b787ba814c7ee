// SPDX-License-Identifier: Apache-2.0

package exporter

// RunWithTimeout serves metrics without confinement, with another timeout for reports.
var RunWithTimeout = run
