// SPDX-License-Identifier: Apache-2.0

// Package network handles the requests of package prober. Only the prober process links it,
// which runs without capabilities and opens no file.
package network
