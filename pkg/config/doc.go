// SPDX-License-Identifier: Apache-2.0

// Package config owns the host's configuration file: its keys, its defaults and
// the copy of the last accepted configuration. Every process but the exporter
// links it.
//
// Parse turns text into a validated Config in one step; no other code validates a
// value again. The service and the administrator's tool use the same code, so both
// report the same problems.
package config
