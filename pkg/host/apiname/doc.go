// SPDX-License-Identifier: Apache-2.0

// Package apiname owns the external DNS name of the API, which it derives from a
// world-readable file of the host. The controller and check link it.
package apiname
