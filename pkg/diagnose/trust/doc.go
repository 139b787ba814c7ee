// SPDX-License-Identifier: Apache-2.0

// Package trust evaluates the CAs that verify the ingress. `http01-proxyd check` links it.
package trust
