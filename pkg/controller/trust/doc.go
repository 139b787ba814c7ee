// SPDX-License-Identifier: Apache-2.0

// Package trust reads the CAs that TLS to the ingress is verified with: the administrator's bundle
// or, without a bundle, the CAs that this host trusts. The controller links it.
package trust
