// SPDX-License-Identifier: Apache-2.0

package config

import (
	"net/netip"
	"slices"
	"time"
)

// Mode selects whether and how the proxy is deployed. Its values are the same as in
// http01ChallengeProxy.mode of the APIServer resource.
type Mode string

// The modes. An absent key means DefaultDeployment. An explicit empty string disables
// the proxy.
const (
	ModeDefault  Mode = "DefaultDeployment"
	ModeCustom   Mode = "CustomDeployment"
	ModeDisabled Mode = ""
)

// The bounds of the values.
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
	// Let's Encrypt gives one fetch ten seconds (boulder va/http.go and the VA's timeouts), so
	// a longer timeout would be useless.
	maxTimeout = 60 * time.Second

	minSelfTestInterval = 10 * time.Second
	maxSelfTestInterval = 24 * time.Hour

	minTestInterval = time.Second
	maxTestInterval = time.Hour
)

// Config is one accepted configuration. It is immutable, including the elements of its
// slices, so any goroutine may read it.
type Config struct {
	Mode         Mode
	InternalPort uint16 // of the proxy; port 80 of the VIPs is redirected to it
	VIPs         VIPs
	Upstream     Upstream
	EgressProxy  EgressProxy
	Hosts        []string // canonical names and addresses whose requests are forwarded; empty: the API's names
	AnyHost      bool     // hosts is ["*"]: requests for any name are forwarded; Hosts is empty
	Limits       Limits
	Metrics      Metrics
	SelfTest     SelfTest
	MicroShift   MicroShift
}

// Management names the program that manages the VIPs. Its values are the same as in
// vipManagement of the Infrastructure resource (openshift/api config/v1 VIPManagementType).
type Management string

// The values of Management.
const (
	ManagementDetected   Management = "" // BGP if kube-vip's static pods are on this host
	ManagementKeepalived Management = "Keepalived"
	ManagementBGP        Management = "BGP" // kube-vip; several hosts hold a VIP at once
)

// VIPs is the source of the virtual IPs.
type VIPs struct {
	Management       Management
	KeepalivedConfig string       // absolute path of keepalived.conf
	API, Ingress     []netip.Addr // explicit VIPs; if there are any, they are not read from keepalived.conf or kube-vip

	TestInterval time.Duration // between two tests of the API VIPs that other hosts hold, on average; 0: off
}

// Explicit reports whether the configuration contains the VIPs.
func (v VIPs) Explicit() bool { return len(v.API) > 0 }

// Limits bound the resources that clients can use.
type Limits struct {
	MaxConnections int           // concurrent challenges that are forwarded
	PerSource      int           // of these, from one IPv4 address or IPv6 /64; 0: no limit
	HeadTimeout    time.Duration // from accept until the request head is complete
	HeadBytes      int
}

// Metrics is where the exporter serves metrics.
type Metrics struct {
	// ListenAddress with the zero value disables the exporter. The address "::" means all addresses of
	// both families.
	ListenAddress netip.AddrPort
}

// SelfTest is when the service requests a challenge that does not exist.
type SelfTest struct {
	Interval time.Duration // between two self-tests, on average; 0: off
}

// MicroShift is the support for MicroShift hosts.
type MicroShift struct {
	Directory string // absolute path of its configuration; empty: no MicroShift support
	// ManageAdvertiseAddress adds the internal address of the API server to lo, as MicroShift
	// does, unless a link of this host already has it.
	ManageAdvertiseAddress bool
}

// Enabled reports whether the configuration enables the proxy.
func (c Config) Enabled() bool { return c.Mode != ModeDisabled }

// InternalHosts are the hosts that must not get a public certificate: the names of the API
// for the nodes of a cluster.
func (c Config) InternalHosts() []string {
	return slices.DeleteFunc(slices.Clone(c.Hosts), func(host string) bool { return !IsInternalAPIName(host) })
}

// Default is the configuration of a host without a configuration file.
func Default() Config {
	return Config{
		Mode:         ModeDefault,
		InternalPort: DefaultInternalPort,
		VIPs:         VIPs{KeepalivedConfig: "/etc/keepalived/keepalived.conf", TestInterval: 15 * time.Second},
		Upstream: Upstream{
			Scheme: SchemeHTTP, Port: 80, HTTPSPort: 443, FollowRedirects: true, ProxyProtocol: ProxyProtocolOff,
			TrustedCA: "/etc/http01-proxyd/ca-bundle.crt", ConnectTimeout: 2 * time.Second, Timeout: 8 * time.Second,
		},
		EgressProxy: EgressProxy{
			// The machine-config-operator of OpenShift writes these files on every node.
			File:      "/etc/mco/proxy.env",
			TrustedCA: "/etc/pki/ca-trust/source/anchors/openshift-config-user-ca-bundle.crt",
			Upstream:  EgressNever,
		},
		Limits:     Limits{MaxConnections: 4096, PerSource: 256, HeadTimeout: 5 * time.Second, HeadBytes: 8192},
		SelfTest:   SelfTest{Interval: time.Hour},
		MicroShift: MicroShift{Directory: "/etc/microshift"},
	}
}

// HostPaths are the files and directories of this host that the service and check use.
type HostPaths struct {
	ConfigPath          string
	APIServerURLFile    string // contains the name of the API
	StateDir            string
	StatusSocket        string
	ManifestDir         string // kubelet's directory of static pods
	DisabledManifestDir string // of static pods that are disabled
	ResolvConf          string // names the DNS servers
	HostsFile           string // names of addresses, which precede the DNS
}
