// SPDX-License-Identifier: Apache-2.0

// Package monitoring tests what machineconfigs/monitoring tells Prometheus: the
// rules by promtool, the objects by their schemas, the dashboard by its own
// promises. That no query of the dashboard comes back empty is tested in
// test/support/cluster, where there are hosts to be scraped.
package monitoring
