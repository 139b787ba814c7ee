// SPDX-License-Identifier: Apache-2.0

package model

import "time"

// The bounds of the service's reactions. react is the bound of everything that has no
// other: "within one second of the last fault".
const (
	react = time.Second

	// changeDelay is how long a changed file must keep its content
	// (internal/settled: ChangeDelay), beside the second.
	changeDelay = 100 * time.Millisecond
	// lossDelay is the same for a keepalived.conf that lacks something, and for an empty
	// configuration (settled.LossDelay; docs/configuration.md).
	lossDelay = 2 * time.Second

	// startDelay is RestartSec of the unit, and the start of two processes on a busy
	// machine: docs/internals/restart.md has 0.25 s. The first pass may wait for a complete
	// observation (reconcile.startTimeout, 2 s).
	startDelay   = time.Second
	startTimeout = 2 * time.Second

	// drainTimeout is how long the requests in flight have when the service closes its port;
	// the state changes after that (reconcile.defaultDrainTimeout, docs/internals/restart.md).
	drainTimeout = 5 * time.Second

	// retryDelay is the longest delay of a retry after a failed attempt
	// (reconcile.maxRetryDelay), here for a port that was in use.
	retryDelay = 5 * time.Second

	// stableLifetime is how long a proxy process must live before the state no longer
	// reports the exit of the one before; exitWindow is the same after frequentExits
	// (controller: stableLifetime, exitWindow, frequentExits).
	stableLifetime = time.Second
	exitWindow     = time.Minute
	frequentExits  = 3
	// proxyBackoff and maxProxyBackoff delay the start of a proxy process after short lives
	// (controller: minProxyBackoff, maxProxyBackoff).
	proxyBackoff    = 50 * time.Millisecond
	maxProxyBackoff = 5 * time.Second

	// silentProxy is when a proxy process that does not answer is replaced at the latest
	// (docs/internals/restart.md: "replaced within 18 s").
	silentProxy = 18 * time.Second
	// earliestSilence is when such a process can have been replaced: its last heartbeat is 6 s
	// old at most (controller: proxySilenceLimit). stallThreshold is how long the controller
	// must have been stopped itself to wait once more.
	earliestSilence = 6 * time.Second
	stallThreshold  = 3 * time.Second

	// undelivered is how long the state can wait for the response to the service's own request
	// to a VIP that has just arrived, while the host drops them all: one request that the
	// arrival of the VIP makes obsolete, and three that fail, of 2 s each, with 1 s in between
	// (controller: livenessTimeout, failureThreshold, livenessRetryInterval).
	undelivered = 10 * time.Second

	// probeDelay is when the state reports that the ingress refuses connections: a failed
	// challenge requests a probe, at most one a second, 200 ms later
	// (controller: minProbeInterval, probeDelay). While all are unreachable, the next one is
	// 5 s later (probeRetryInterval).
	probeDelay      = 1200 * time.Millisecond
	probeRetryDelay = 5 * time.Second
)
