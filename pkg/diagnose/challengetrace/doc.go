// SPDX-License-Identifier: Apache-2.0

// Package challengetrace follows one challenge as a validator does, and predicts what Let's Encrypt
// and cert-manager conclude. `http01-proxyd check` links it.
package challengetrace
