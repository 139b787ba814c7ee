// SPDX-License-Identifier: Apache-2.0

// Package validation tests the service with Let's Encrypt's own validation code
// (support/boulder): which challenges are valid, and what the CA reports for each fault. Each text
// in "What the CA reports" of the troubleshooting document is one that this code returns.
package validation
