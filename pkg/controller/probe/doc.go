// SPDX-License-Identifier: Apache-2.0

// Package probe finds out whether clients are answered: the liveness check makes requests that
// the proxy process itself answers, the self-test makes requests that the ingress answers, and
// for the upstream check, the proxy process connects to the ingress. The controller links it.
// The proxy process or a prober process parses what other hosts send.
package probe
