// SPDX-License-Identifier: Apache-2.0

package exporter

// RunFor is Run with another patience with the keeper.
var RunFor = run
