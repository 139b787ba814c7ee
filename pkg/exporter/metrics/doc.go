// SPDX-License-Identifier: Apache-2.0

// Package metrics turns a status report into Prometheus's metrics. It is pure, and
// the same for the exporter and for "http01-proxyd status -o prometheus".
//
// Every combination of labels that comes from a fixed set is there from the start:
// a counter that began with 1 would hide its first event from increase().
package metrics
