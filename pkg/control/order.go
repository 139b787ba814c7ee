// SPDX-License-Identifier: Apache-2.0

package control

import (
	"net/netip"
	"time"
)

// Order is what the keeper wants of the gate: one field is set.
type Order struct {
	Configure *Configure `json:"configure,omitempty"`
	Listen    *Listen    `json:"listen,omitempty"` // comes with the listening socket
	Leave     *Leave     `json:"leave,omitempty"`
	Drain     *Drain     `json:"drain,omitempty"`
	Probe     *Probe     `json:"probe,omitempty"`
	Tell      *Tell      `json:"tell,omitempty"`
}

// Configure puts settings in force for connections that are accepted from now
// on. It comes before any other order.
type Configure struct {
	Hosts          []string      `json:"hosts"`
	MaxConnections int           `json:"maxConnections"`
	PerSource      int           `json:"perSource"`
	HeadTimeout    time.Duration `json:"headTimeout"`
	Timeout        time.Duration `json:"timeout"`
	HeadBytes      int           `json:"headBytes"`

	Ingress        []netip.Addr  `json:"ingress"`
	Port           uint16        `json:"port"`
	ConnectTimeout time.Duration `json:"connectTimeout"`
}

// Listen gives the gate a listening socket to serve.
type Listen struct {
	Port uint16 `json:"port"`
}

// Leave tells that nobody is led to this port any more: what waits in its
// backlog is still served, then the gate closes it and says [Gone].
type Leave struct {
	Port uint16 `json:"port"`
}

// Drain tells to serve what waits in the backlogs, close every port, let the
// challenges in flight end, for Budget at the longest, and say [Drained].
type Drain struct {
	Budget time.Duration `json:"budget"`
}

// Probe asks which ingress addresses take connections; [Probed] answers.
type Probe struct{}

// Tell asks for the [News] that there is, if any, and then for [Told].
type Tell struct{}
