// SPDX-License-Identifier: Apache-2.0

// Package monitoring tests machineconfigs/monitoring: the rules with promtool, the objects
// with their schemas, and the dashboard with Grafana's schema, with the console's
// requirements, and with Prometheus on recorded data. test/support/cluster holds on real
// hosts that every query of the dashboard returns values.
package monitoring
