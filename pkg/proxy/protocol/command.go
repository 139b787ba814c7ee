// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
)

// Command is a command of the controller to the proxy: one field is set.
type Command struct {
	Configure     *Configure        `json:"configure,omitempty"`
	Trust         *ingress.CABundle `json:"trust,omitempty"`
	Egress        *ingress.Egress   `json:"egress,omitempty"` // a decision for the upstream settings in force
	Listen        *Listen           `json:"listen,omitempty"` // with the listening socket
	StopListening *StopListening    `json:"leave,omitempty"`
	Drain         *Drain            `json:"drain,omitempty"`
	ProbeIngress  *ProbeIngress     `json:"probe,omitempty"`
	Flush         *Flush            `json:"tell,omitempty"`
}

// Configure applies settings to connections that are accepted from now on. It is the
// first command, except that CAs may come before it.
type Configure struct {
	Hosts          []string      `json:"hosts"`
	MaxConnections int           `json:"maxConnections"`
	PerSource      int           `json:"perSource"`
	HeadTimeout    time.Duration `json:"headTimeout"`
	HeadBytes      int           `json:"headBytes"`

	Upstream ingress.Upstream `json:"upstream"`
	// Egress is the egress decision for these upstream settings; nil: unchanged. Both
	// take effect together. One without the other could bypass the egress proxy.
	Egress *ingress.Egress `json:"egress,omitempty"`
}

// Listen gives the gate a listening socket to serve.
type Listen struct {
	Port uint16 `json:"port"`
}

// StopListening tells that nobody is led to this port any more: what waits in its
// backlog is still served, then the gate closes it and says [Gone].
type StopListening struct {
	Port uint16 `json:"port"`
}

// Drain tells to serve what waits in the backlogs, close every port, let the
// challenges in flight end, for Budget at the longest, and say [Drained].
type Drain struct {
	Budget time.Duration `json:"budget"`
}

// ProbeIngress asks which ingress addresses take connections; [Probed] answers.
type ProbeIngress struct{}

// Flush asks for the [News] that there is, if any, and then for [Told].
type Flush struct{}
