// SPDX-License-Identifier: Apache-2.0

// Package certificate evaluates the certificates that the API servers present.
// `http01-proxyd check` links it.
package certificate
