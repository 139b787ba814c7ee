// SPDX-License-Identifier: Apache-2.0

package exporter

// RunWithTimeout is Run with another patience with the keeper.
var RunWithTimeout = run
