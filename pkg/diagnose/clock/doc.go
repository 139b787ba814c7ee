// SPDX-License-Identifier: Apache-2.0

// Package clock compares this host's clock with others. `http01-proxyd check` links it.
package clock
