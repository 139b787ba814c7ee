// SPDX-License-Identifier: Apache-2.0

// Package response evaluates HTTP responses that the prober received: which fault they
// show, who sent them, and whether they contain the key of a challenge. `http01-proxyd
// check` links it.
package response
