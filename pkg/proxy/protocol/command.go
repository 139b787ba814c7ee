// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"fmt"
	"net/netip"
	"time"
)

// Command is what the keeper wants of the gate: one field is set, besides Hold.
type Command struct {
	Configure     *Configure     `json:"configure,omitempty"`
	Trust         *CABundle      `json:"trust,omitempty"`
	Egress        *EgressRoutes  `json:"egress,omitempty"`
	Listen        *Listen        `json:"listen,omitempty"` // comes with the listening socket
	StopListening *StopListening `json:"leave,omitempty"`
	Drain         *Drain         `json:"drain,omitempty"`
	ProbeIngress  *ProbeIngress  `json:"probe,omitempty"`
	Flush         *Flush         `json:"tell,omitempty"`

	// Hold has what Egress says count together with the next Configure, and not
	// before: one without the other leads nowhere, or past the proxy.
	DeferUntilConfigured bool `json:"hold,omitempty"`
}

// Configure puts settings in force for connections that are accepted from now
// on. It comes before any other order but [Trust] and [Egress].
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

	TLS             bool     `json:"secure,omitempty"` // TLS from the start, to HTTPSPort
	HTTPSPort       uint16   `json:"httpsPort"`
	FollowRedirects bool     `json:"followRedirects,omitempty"`
	ProxyProtocol   int      `json:"proxyProtocol,omitempty"` // its version; 0: none
	VerifyNames     []string `json:"verifyNames,omitempty"`
}

// CABundle says which CAs an ingress that speaks TLS may have its certificate from.
type CABundle struct {
	Roots       [][]byte `json:"roots"` // certificates in DER; without any nothing is trusted
	Description string   `json:"-"`     // what they are, in one line, for diagnoses: the controller writes these
}

// EgressRoutes says which ingress addresses are reached through a proxy: those that are
// not named are reached directly.
type EgressRoutes struct {
	Routes        []EgressRoute `json:"through,omitempty"`
	ProxyCAs      CABundle      `json:"proxies,omitzero"` // for TLS with a proxy itself; what an ingress has to lead to is of no use there
	AdditionalCAs CABundle      `json:"beyond,omitzero"`  // besides the [Trust] of all, for what comes through a proxy, which may look into TLS
}

// EgressRoute is the way to one ingress address and port.
type EgressRoute struct {
	Ingress netip.AddrPort `json:"ingress"`
	Proxy   EgressProxy    `json:"proxy"`
}

// EgressProxy is a proxy and what it wants to know. Its Authorization is a secret.
type EgressProxy struct {
	Name          string           `json:"name"`             // of its host, for TLS with it and for diagnoses
	TLS           bool             `json:"secure,omitempty"` // TLS with the proxy itself
	Addrs         []netip.AddrPort `json:"addrs"`            // the gate resolves no names
	Authorization string           `json:"authorization,omitempty"`
}

// Format writes the proxy without its secret, whatever the verb is.
func (p EgressProxy) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "proxy %s at %v", p.Name, p.Addrs)
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
