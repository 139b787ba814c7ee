// SPDX-License-Identifier: Apache-2.0

// Package settings makes the orders about the way to the ingress out of the
// configuration, the trusted CAs and the accepted egress proxy: the keeper gives
// them to the gate, and check asks the ingress by the same.
package settings
