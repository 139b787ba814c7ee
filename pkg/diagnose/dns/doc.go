// SPDX-License-Identifier: Apache-2.0

// Package dns evaluates what this host's DNS servers return for the names of the API.
// `http01-proxyd check` links it.
package dns
