// SPDX-License-Identifier: Apache-2.0

// Package ruleset finds the nftables rules that keep challenges from the service, by a
// simulation of the host's rulesets. `http01-proxyd check` links it.
package ruleset
