// SPDX-License-Identifier: Apache-2.0

// Package probe finds out whether clients are answered: the liveness check makes requests that the
// proxy process itself answers, the self-test makes requests that the ingress answers, and the
// upstream check has the proxy process connect to the ingress. The controller links it. What other
// hosts send is parsed in the proxy process or in a prober process.
package probe
