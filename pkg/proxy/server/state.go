// SPDX-License-Identifier: Apache-2.0

package server

import "slices"

// state is what the worker waits for with a connection, as doc.go lists it.
type state uint8

const (
	closed state = iota
	reading
	queueing
	connecting
	sending
	awaiting
	delegated
	replying
	draining
	stateCount
)

// next lists the states after each state. Each except closed can also end in closed.
//
//nolint:gochecknoglobals // a constant
var next = [stateCount][]state{
	closed:     {reading},
	reading:    {queueing, connecting, sending, delegated, replying},
	queueing:   {connecting, sending, delegated, replying},
	connecting: {sending, delegated, replying},
	sending:    {connecting, awaiting, delegated, replying},
	awaiting:   {connecting, delegated, replying},
	delegated:  {delegated, replying},
	replying:   {draining},
}

// leadsTo reports whether another state may follow.
func (s state) leadsTo(to state) bool { return slices.Contains(next[s], to) }
