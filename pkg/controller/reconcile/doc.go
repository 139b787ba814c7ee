// SPDX-License-Identifier: Apache-2.0

// Package reconcile owns the reconcile loop: observe, decide, apply, retry. The controller
// links it; check links its decisions.
//
// An event only starts a pass. A pass acts on the current configuration, keepalived.conf
// and addresses, and applying the same plan twice changes nothing. decide is a pure
// function; the observer reads, and the applier writes.
package reconcile
