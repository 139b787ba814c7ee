// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"fmt"
	"net/netip"
	"time"
)

// Command is a message of the controller. Exactly one field is set.
type Command struct {
	Configure     *Configure     `json:"configure,omitempty"`
	Trust         *CABundle      `json:"trust,omitempty"`
	Egress        *EgressRoutes  `json:"egress,omitempty"`
	Listen        *Listen        `json:"listen,omitempty"` // the listening socket comes with it
	StopListening *StopListening `json:"stopListening,omitempty"`
	Drain         *Drain         `json:"drain,omitempty"`
	ProbeIngress  *ProbeIngress  `json:"probeIngress,omitempty"`
	Flush         *Flush         `json:"flush,omitempty"`

	// Hold has what Egress says count together with the next Configure, and not
	// before: one without the other leads nowhere, or past the proxy.
	DeferUntilConfigured bool `json:"hold,omitempty"`
}

// Configure applies settings to connections that are accepted from now on. Only
// [CABundle] and [EgressRoutes] may precede the first Configure.
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

	TLS             bool     `json:"secure,omitempty"` // TLS from the start, with HTTPSPort
	HTTPSPort       uint16   `json:"httpsPort"`
	FollowRedirects bool     `json:"followRedirects,omitempty"`
	ProxyProtocol   int      `json:"proxyProtocol,omitempty"` // version; 0: none
	VerifyNames     []string `json:"verifyNames,omitempty"`
}

// CABundle holds the CAs that verify TLS with the ingress.
type CABundle struct {
	Roots       [][]byte `json:"roots"` // certificates in DER; none: no certificate is trusted
	Description string   `json:"-"`     // in one line, for diagnoses of the controller
}

// EgressRoutes lists the ingress addresses that are reached through an egress proxy. All
// others are reached directly.
type EgressRoutes struct {
	Routes        []EgressRoute `json:"through,omitempty"`
	ProxyCAs      CABundle      `json:"proxies,omitzero"` // verify TLS with the proxy itself, instead of the CAs for the ingress
	AdditionalCAs CABundle      `json:"beyond,omitzero"`  // added to the [CABundle] for connections through a proxy, which may intercept TLS
}

// EgressRoute is the route to one ingress address and port.
type EgressRoute struct {
	Ingress netip.AddrPort `json:"ingress"`
	Proxy   EgressProxy    `json:"proxy"`
}

// EgressProxy is an egress proxy with its credentials. Authorization is a secret.
type EgressProxy struct {
	Name          string           `json:"name"`             // host name, for TLS and for diagnoses
	TLS           bool             `json:"secure,omitempty"` // TLS with the proxy itself
	Addrs         []netip.AddrPort `json:"addrs"`            // the proxy process resolves no names
	Authorization string           `json:"authorization,omitempty"`
}

// Format prints the proxy without its secret, whatever the verb is.
func (p EgressProxy) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "proxy %s at %v", p.Name, p.Addrs)
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

// Flush requests the pending [Stats], if any, followed by [Flushed].
type Flush struct{}
