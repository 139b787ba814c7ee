// SPDX-License-Identifier: Apache-2.0

package config

import (
	"net/netip"
	"time"
)

// Mode says whether and how the front door is deployed. The values are those
// of http01ChallengeProxy.mode in the APIServer resource.
type Mode string

// The modes. An absent key means DefaultDeployment; the empty string, which
// has to be written out, disables the front door.
const (
	ModeDefault  Mode = "DefaultDeployment"
	ModeCustom   Mode = "CustomDeployment"
	ModeDisabled Mode = ""
)

// The bounds of what a configuration may ask for.
const (
	DefaultInternalPort = 8888
	minInternalPort     = 1024
	minMetricsPort      = 1024
	maxPort             = 65535

	minConnections = 1
	maxConnections = 1 << 20
	minPerSource   = 0 // off

	minHeadBytes = 512
	maxHeadBytes = 64 << 10

	minTimeout = 10 * time.Millisecond
	// Let's Encrypt gives one fetch ten seconds (boulder va/http.go and the
	// VA's timeouts); a longer wait than this serves nobody.
	maxTimeout = 60 * time.Second
)

// Config is one accepted configuration. It is a value: whoever holds one may
// read it from any goroutine, nobody changes it or what its slices point to.
type Config struct {
	Mode         Mode
	InternalPort uint16 // where the front door listens: VIP:80 is led there
	VIPs         VIPs
	Upstream     Upstream
	EgressProxy  EgressProxy
	Hosts        []string // canonical names that the front door answers for; empty means any
	Limits       Limits
	Metrics      Metrics
	MicroShift   MicroShift
}

// VIPs says where the virtual IPs come from.
type VIPs struct {
	KeepalivedConfig string       // absolute path of keepalived.conf
	API, Ingress     []netip.Addr // explicit VIPs; when there are any, keepalived.conf is not asked
}

// Explicit reports whether the configuration names the VIPs itself.
func (v VIPs) Explicit() bool { return len(v.API) > 0 }

// Limits bound what clients can take from the host.
type Limits struct {
	MaxConnections int
	PerSource      int           // connections at once from one IPv4 address or IPv6 /64; 0 means any number
	HeadTimeout    time.Duration // from accept until the request head is complete
	HeadBytes      int
}

// Metrics says where the exporter serves metrics.
type Metrics struct {
	ListenAddress netip.AddrPort // the zero value: nowhere; with the address "::" every one of either family
}

// Enabled reports whether the configuration asks for a front door at all.
func (c Config) Enabled() bool { return c.Mode != ModeDisabled }

// Default is the configuration of a host without a configuration file.
func Default() Config {
	return Config{
		Mode:         ModeDefault,
		InternalPort: DefaultInternalPort,
		VIPs:         VIPs{KeepalivedConfig: "/etc/keepalived/keepalived.conf"},
		Upstream: Upstream{
			Scheme: SchemeHTTP, Port: 80, HTTPSPort: 443, FollowRedirects: true, ProxyProtocol: ProxyProtocolOff,
			TrustedCA: "/etc/http01-proxyd/ca-bundle.crt", ConnectTimeout: 2 * time.Second, Timeout: 8 * time.Second,
		},
		EgressProxy: EgressProxy{
			// Where OpenShift puts them on every node (machine-config-operator).
			File:      "/etc/mco/proxy.env",
			TrustedCA: "/etc/pki/ca-trust/source/anchors/openshift-config-user-ca-bundle.crt",
			Upstream:  EgressNever,
		},
		Limits:     Limits{MaxConnections: 4096, PerSource: 256, HeadTimeout: 5 * time.Second, HeadBytes: 8192},
		MicroShift: MicroShift{Directory: "/etc/microshift"},
	}
}
