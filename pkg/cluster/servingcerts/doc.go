// SPDX-License-Identifier: Apache-2.0

// Package servingcerts owns the rules for public certificates of the API:
// spec.servingCerts of the APIServer, and the names that the hosts answer challenges for.
// Only the administrator's tool links it.
package servingcerts
