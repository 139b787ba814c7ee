// SPDX-License-Identifier: Apache-2.0

package server

import (
	"maps"
	"time"
)

// After a reload, the previous process of OpenShift's router serves the connections that it
// accepted. With idleConnectionTerminationPolicy Deferred (HAProxy's idle-close-on-response),
// that includes idle ones: it answers one more request on each of them according to its old
// configuration. If the request is for the route of a new challenge, the response is a 503. The
// request is then sent again on a new connection, and the other kept ones are closed.
//
// A route whose solver does not run gets the same response. These bounds keep an ingress from
// getting every such request twice.
const (
	// repeatInterval is the time in which one request for each host is repeated.
	repeatInterval = time.Second
	// maxRepeats bounds the repeated requests in flight.
	maxRepeats = 10
	// maxRepeatedHosts bounds the hosts whose requests are repeated within repeatInterval.
	maxRepeatedHosts = 64
)

// repeats counts the repeated requests.
type repeats struct {
	inFlight int
	hosts    map[string]time.Time // when a request for a host was last repeated
}

// begin reports whether a request for a host may be repeated, and counts it.
func (r *repeats) begin(host string, now time.Time) bool {
	isOld := func(_ string, at time.Time) bool { return now.Sub(at) >= repeatInterval }
	if at, known := r.hosts[host]; known && !isOld(host, at) || r.inFlight >= maxRepeats {
		return false
	}
	if len(r.hosts) >= maxRepeatedHosts {
		maps.DeleteFunc(r.hosts, isOld)
	}
	if len(r.hosts) >= maxRepeatedHosts {
		return false
	}
	r.hosts[host] = now
	r.inFlight++
	return true
}

// beginRepeat reports whether the request of c must be sent again, because the complete response
// on a kept connection may be stale. No request is repeated twice, or while its source cannot get
// slots at once. The repeated request counts until c ends.
func (c *connection) beginRepeat(status int, wasKept bool) bool {
	if status != 503 || !wasKept || c.request.Repeated {
		return false
	}
	t := c.worker.server.table
	t.lock(c)
	defer t.mu.Unlock()
	c.request.Repeated = c.stage == answering && t.hasSlot(c.source) && t.repeats.begin(c.hostname, t.now)
	return c.request.Repeated
}
