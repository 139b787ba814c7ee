// SPDX-License-Identifier: Apache-2.0

// Package reconcile owns the reconcile loop: observe, decide, apply, retry. The controller
// links it; check uses the same packages ownership and microshift/decision.
//
// An event only starts a pass. A pass acts on the current configuration, keepalived.conf
// and addresses, and applying the same plan twice changes nothing. decide is a pure
// function, which also finds the addresses of the ingress; the observer reads, and the applier writes.
// At SIGTERM, Run ends: it removes listeners and table, or leaves them to the next process.
package reconcile
