// SPDX-License-Identifier: Apache-2.0

// Package challengetrace follows one challenge as a validator does, and reports what it observes.
// `http01-proxyd check` links it.
package challengetrace
