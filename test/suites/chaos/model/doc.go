// SPDX-License-Identifier: Apache-2.0

// Package model decides what must be true of a host: a pure function of the inputs that the
// chaos suite set. It never sees anything that the service reports.
//
// It allows for two kinds of uncertainty. A fault can follow another one so fast that the service
// missed the state in between. What a process keeps (the last good keepalived.conf, the last
// accepted configuration, its port) is therefore a set of candidates, and the host must agree with
// one combination. Also, the service must react to each fault within a bound of bounds.go, which
// names its source. Without faults for longer than that, the set contains one element.
package model
