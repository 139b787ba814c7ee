// SPDX-License-Identifier: Apache-2.0

// Package model owns what must be true of a host: a pure function of the inputs that the
// chaos suite has set. It never has anything that the service reports.
//
// Two kinds of uncertainty are in it. A fault can follow another one so fast that the
// service did not see the state in between. So what a process keeps (the last good
// keepalived.conf, the last accepted configuration, the port that it listens on) is a set
// of candidates, and the host must agree with one of their combinations. And each fault
// has a bound until the service must have reacted to it, with its source beside it in
// bounds.go. Without faults for longer than that, the set has one element.
package model
