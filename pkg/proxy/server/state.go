// SPDX-License-Identifier: Apache-2.0

package server

// state is what the worker does with a connection, as doc.go lists it.
type state uint8

const (
	closed state = iota
	reading
	queueing
	connecting
	sending
	awaiting
	relaying
	flushing
	delegated
	delivering
	replying
	draining
	stateCount
)

// event is what moves a connection to another state.
type event uint8

const (
	accepted  event = iota
	forward         // a complete challenge with a slot, for an idle or new connection to the ingress
	exceeds         // a complete challenge beyond the bound of its source
	connects        // a new connection to the ingress has begun
	connected       // it is open
	sent            // the ingress has the request
	responds        // the head of the response is complete
	blocks          // the client's buffer is full
	flushed         // the client has everything so far
	delegates       // the request needs more than a direct exchange
	writes          // the delegate has bytes for the client
	reply           // the proxy itself responds
	drains          // the client has its response, and still sends
	ends            // for whatever reason
	eventCount
)

// next is the state after an event. A pair that is not listed is a defect.
//
//nolint:gochecknoglobals // a constant
var next = [stateCount][eventCount]state{
	closed:     {accepted: reading},
	reading:    {forward: sending, connects: connecting, exceeds: queueing, delegates: delegated, reply: replying},
	queueing:   {forward: sending, connects: connecting, delegates: delegated, reply: replying},
	connecting: {connected: sending, delegates: delegated, reply: replying},
	sending:    {sent: awaiting, connects: connecting, delegates: delegated, reply: replying},
	awaiting:   {responds: relaying, connects: connecting, delegates: delegated, reply: replying},
	relaying:   {blocks: flushing, reply: replying, drains: draining},
	flushing:   {flushed: relaying},
	delegated:  {writes: delivering, reply: replying, drains: draining},
	delivering: {flushed: delegated},
	replying:   {drains: draining},
}

// after returns the state after an event. Each state except closed ends in closed. ok is
// false for an event that the state does not expect.
func (s state) after(e event) (to state, ok bool) {
	if e == ends {
		return closed, s != closed
	}
	to = next[s][e]
	return to, to != closed
}
