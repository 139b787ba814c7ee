// SPDX-License-Identifier: Apache-2.0

// Package certificate owns the files that request the API's certificate from cert-manager, and
// the script that names it in the APIServer. It returns files and does no I/O.
package certificate
