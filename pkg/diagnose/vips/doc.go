// SPDX-License-Identifier: Apache-2.0

// Package vips finds the VIPs of this host like the service does, once, and evaluates
// them. `http01-proxyd check` links it.
package vips
