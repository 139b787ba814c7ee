// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"net/netip"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/ingress"
)

// Command is a message of the controller. Exactly one field is set.
type Command struct {
	Configure     *Configure        `json:"configure,omitempty"`
	CAs           *ingress.CABundle `json:"cas,omitempty"`
	Listen        *Listen           `json:"listen,omitempty"` // the listening socket comes with it
	StopListening *StopListening    `json:"stopListening,omitempty"`
	Drain         *Drain            `json:"drain,omitempty"`
	ProbeIngress  *ProbeIngress     `json:"probeIngress,omitempty"`
	SelfTest      *SelfTest         `json:"selfTest,omitempty"`
	TestVIPs      *TestVIPs         `json:"testVIPs,omitempty"`
	Flush         *Flush            `json:"flush,omitempty"`
}

// Configure applies settings to connections that are accepted from now on. Only
// [ingress.CABundle] may precede the first Configure.
type Configure struct {
	// Hosts are canonical: in lower case, without port, trailing dot and brackets. Empty: any name.
	Hosts          []string      `json:"hosts"`
	MaxConnections int           `json:"maxConnections"` // slots: challenges that are forwarded at once, over all listeners
	PerSource      int           `json:"perSource"`      // of these, from one IPv4 address or IPv6 /64; 0: no bound
	HeadTimeout    time.Duration `json:"headTimeout"`    // from accept until the request head is complete
	HeadBytes      int           `json:"headBytes"`      // of a request head
	Instance       uint64        `json:"instance"`       // of the service: the ID in responses to test requests

	Upstream ingress.Upstream `json:"upstream"`
	// Egress is the egress decision for these upstream settings. Both take effect together: one
	// without the other could bypass the egress proxy.
	Egress ingress.Egress `json:"egress"`
}

// Listen passes a listening socket to the proxy.
type Listen struct {
	Port uint16 `json:"port"`
}

// StopListening announces that no connection is redirected to this port any more. The
// proxy serves its backlog, closes the port and reports [Stopped].
type StopListening struct {
	Port uint16 `json:"port"`
}

// Drain makes the proxy serve the backlogs, close every port and wait for challenges in
// flight, for Budget at most. [Drained] reports the end.
type Drain struct {
	Budget time.Duration `json:"budget"`
}

// ProbeIngress requests a connection attempt to each ingress address. [IngressProbed]
// answers.
type ProbeIngress struct{}

// SelfTest announces a request of the controller's self-test. The proxy forwards the next
// request for the token at the VIP like any other. It is not counted as a challenge, and
// [Stats.SelfTest] reports it. A later announcement replaces this one. [Flushed] answers.
type SelfTest struct {
	ID    uint64     `json:"id"`
	VIP   netip.Addr `json:"vip"`
	Token string     `json:"token"` // random: no client can guess it
}

// TestVIPs makes the process send a test request to port 80 of each VIP. [VIPsTested] answers.
type TestVIPs struct {
	VIPs []netip.Addr `json:"vips"` // at most MaxTestedVIPs
}

// Flush requests the pending [Stats], if any, followed by [Flushed].
type Flush struct{}
