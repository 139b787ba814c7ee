// SPDX-License-Identifier: Apache-2.0

// Package metrics converts a status report to Prometheus metrics, for the exporter and for
// "http01-proxyd status -o prometheus". It is pure: the values come from
// the report, where package tracker counts what the proxy process reports. Every combination of labels from fixed
// sets exists from the start: increase() misses the first event of a counter that begins
// with 1.
package metrics
