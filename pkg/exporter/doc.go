// SPDX-License-Identifier: Apache-2.0

// Package exporter is the process that serves metrics to Prometheus: it has a
// listening socket that the keeper has made, and asks the keeper what there is to
// serve. It has no capability and opens no file.
package exporter
