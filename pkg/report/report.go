// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"net/netip"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"time"
)

// Report is the status of the service, as `status -o json` prints it.
type Report struct {
	// Time is when the service returned the report: UTC, in milliseconds as in History.
	Time    time.Time `json:"time,omitzero"`
	Version string    `json:"version"`
	Build   Build     `json:"build"`
	// the first has the type ConditionType, the others are for parts of the service
	Conditions []Condition `json:"conditions"`
	// StateSince is when the reason of the first condition last changed: UTC, in whole seconds.
	StateSince time.Time `json:"stateSince,omitzero"`
	VIPs       []VIP     `json:"vips"`
	// OwnRequests is why requests of this host to port 80 of a VIP that it holds do not reach the service;
	// empty if they do, or if there are none.
	OwnRequests string     `json:"ownRequests,omitempty"`
	Table       Table      `json:"table"`
	Upstreams   []Upstream `json:"upstreams"`
	Challenges  Challenges `json:"challenges"`
	Config      Config     `json:"config"`
	// AcceptedHosts are the names for which challenges are forwarded to the ingress.
	AcceptedHosts AcceptedHosts `json:"acceptedHosts"`
	// the last 64 changes (MaxHistory) since the start of the service, oldest first
	History []Change `json:"history"`

	Traffic      Traffic       `json:"traffic"`
	Events       Events        `json:"events"`
	Certificates []Certificate `json:"certificates"` // of the API server
	// of the API VIPs that this host holds; empty until the first one is complete
	SelfTests []SelfTest `json:"selfTests"`
	// of the API VIPs that this host does not hold; empty until the first one is complete
	VIPTests     []VIPTest    `json:"vipTests"`
	TestRequests TestRequests `json:"testRequests"` // that this host received
	// Instance is the ID in the responses of this service to test requests: 16 hexadecimal digits.
	Instance    string      `json:"instance,omitempty"`
	Metrics     Metrics     `json:"metrics"`
	Trust       Trust       `json:"trust"`
	EgressProxy EgressProxy `json:"egressProxy"`
}

// WithEmptyLists returns the report with empty lists and maps instead of nil, so that the JSON
// contains no null.
func (r Report) WithEmptyLists() Report {
	r.Conditions = notNil(r.Conditions)
	r.VIPs = notNil(r.VIPs)
	r.Upstreams = notNil(r.Upstreams)
	r.AcceptedHosts.Names = notNil(r.AcceptedHosts.Names)
	r.Certificates = notNil(r.Certificates)
	r.SelfTests = notNil(r.SelfTests)
	r.VIPTests = notNil(r.VIPTests)
	r.TestRequests.Sources = notNil(r.TestRequests.Sources)
	r.History = notNil(r.History)
	r.Table.Elements = notNil(r.Table.Elements)
	r.Table.Counters = notNil(r.Table.Counters)
	r.Challenges.Recent = notNil(r.Challenges.Recent)
	r.Challenges.Rejected = notNilMap(r.Challenges.Rejected)
	r.Traffic.Requests = notNil(r.Traffic.Requests)
	r.Traffic.Durations.Buckets = notNilMap(r.Traffic.Durations.Buckets)
	r.Traffic.UpstreamErrors = notNilMap(r.Traffic.UpstreamErrors)
	r.Events.Reloads = notNilMap(r.Events.Reloads)
	r.Events.VIPTests = notNilMap(r.Events.VIPTests)
	r.Trust.Subjects = notNil(r.Trust.Subjects)
	r.Trust.Ignored = notNil(r.Trust.Ignored)
	r.EgressProxy.Routes = notNil(slices.Clone(r.EgressProxy.Routes))
	for i := range r.EgressProxy.Routes {
		r.EgressProxy.Routes[i].Addresses = notNil(r.EgressProxy.Routes[i].Addresses)
	}
	r.EgressProxy.Endpoints = notNil(r.EgressProxy.Endpoints)
	return r
}

func notNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func notNilMap[K comparable, V any](m map[K]V) map[K]V {
	if m == nil {
		return map[K]V{}
	}
	return m
}

// Build is how the running program was built.
type Build struct {
	Version   string `json:"version"`
	Revision  string `json:"revision"` // of the sources; empty if it is not known
	GoVersion string `json:"goVersion"`
}

// ReadBuild returns what the Go toolchain recorded in this program.
func ReadBuild() Build {
	b := Build{Version: "(devel)", GoVersion: runtime.Version()}
	info, known := debug.ReadBuildInfo()
	if !known {
		return b
	}
	b.Version = cmp.Or(info.Main.Version, b.Version)
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			b.Revision = s.Value
		}
	}
	return b
}

// pseudoVersion matches the version of a commit between two tags, as the Go toolchain records it.
var pseudoVersion = regexp.MustCompile(`^v[0-9].*[-.][0-9]{14}-([0-9a-f]{8})[0-9a-f]{4}(\+.*)?$`)

// ShortVersion returns the version of a tag, or the beginning of a commit.
func ShortVersion(version string) string {
	return pseudoVersion.ReplaceAllString(version, "$1$2")
}

// Metrics is the state of the exporter. The zero value means that no address is
// configured.
type Metrics struct {
	Address string `json:"address,omitempty"` // metrics.listenAddress
	Served  bool   `json:"served"`
	Error   string `json:"error,omitempty"` // why metrics are not served
}

// VIPState is the state of an API VIP on this host.
type VIPState string

// The states of an API VIP.
const (
	VIPHeld        VIPState = "Held"
	VIPStandby     VIPState = "Standby"
	VIPNotRequired VIPState = "NotRequired"
)

// ManagementBGP is the value of VIP.Management for a VIP that each healthy host holds, and
// that routers reach over several of them at once.
const ManagementBGP = "BGP"

// VIP is one API VIP.
type VIP struct {
	Address netip.Addr `json:"address"`
	Family  string     `json:"family"` // IPv4 or IPv6
	State   VIPState   `json:"state"`
	// Management is BGP if several hosts hold the VIP at once, and empty if one host does.
	Management string `json:"management,omitempty"`
	// Since is when the service first observed the state: UTC, in whole seconds.
	Since time.Time `json:"since,omitzero"`
}

// IsHeld reports whether this host holds the VIP.
func (v VIP) IsHeld() bool { return v.State == VIPHeld }

// Table is the state of the service's nftables table, as read from the kernel.
type Table struct {
	Present  bool         `json:"present"`
	Owned    bool         `json:"owned"`    // by this process: no other process can flush or change it
	Port     uint16       `json:"port"`     // the redirect's target port; 0 if not present
	Elements []netip.Addr `json:"elements"` // the VIPs in its sets
	Counters []Counter    `json:"counters"`
	Error    string       `json:"error,omitempty"` // why it could not be read
}

// Counter is the counter of one rule.
type Counter struct {
	Chain   string `json:"chain"`
	Rule    string `json:"rule"`
	Packets uint64 `json:"packets"`
	Bytes   uint64 `json:"bytes"`
}

// Upstream is one ingress address and the result of its last check.
type Upstream struct {
	Address   netip.AddrPort `json:"address"`
	Reachable bool           `json:"reachable"`
	Checked   time.Time      `json:"checked,omitzero"` // zero: not checked yet
	Cause     string         `json:"cause,omitempty"`  // ID of the finding; empty if reachable
	Error     string         `json:"error,omitempty"`  // its message
}

// Config is the state of the configuration.
type Config struct {
	Source string `json:"source"` // of the active configuration: file, default, last-accepted, or none
	Path   string `json:"path"`
	Error  string `json:"error,omitempty"` // why the file is rejected
}

// Certificate is a certificate of the API server, or why it could not be read.
type Certificate struct {
	Address   string    `json:"address"` // VIP and port
	Name      string    `json:"name"`    // in SNI; empty: no SNI
	Issuer    string    `json:"issuer,omitempty"`
	Serial    string    `json:"serial,omitempty"`
	NotBefore time.Time `json:"notBefore,omitzero"`
	NotAfter  time.Time `json:"notAfter,omitzero"`
	Checked   time.Time `json:"checked"`
	Error     string    `json:"error,omitempty"`

	// FailedRenewals are the attempts to renew it that failed, as far as this host has
	// observed their challenges since its service started.
	FailedRenewals int       `json:"failedRenewals,omitempty"`
	FirstFailure   time.Time `json:"firstFailure,omitzero"` // the last request of the first one
	LastFailure    time.Time `json:"lastFailure,omitzero"`
	// MaxAttemptsLeft is an estimate with cert-manager's defaults of the attempts that it
	// starts at most before the certificate expires; absent before its renewal is due and after
	// the certificate has expired.
	MaxAttemptsLeft *int `json:"maxAttemptsLeft,omitempty"`
}

// SelfTest is the result of the last self-test of an API VIP: a request to its port 80 for
// a challenge that does not exist. A failed one is repeated before it counts.
type SelfTest struct {
	VIP     netip.Addr `json:"vip"`
	OK      bool       `json:"ok"`              // the ingress answered as for an unknown challenge
	Since   time.Time  `json:"since"`           // of this result or the first equal one: UTC, in whole seconds
	Checked time.Time  `json:"checked"`         // UTC, in whole seconds
	Cause   string     `json:"cause,omitempty"` // ID of the finding; empty after success
	Error   string     `json:"error,omitempty"` // its message
}

// Events are the counts of events since the start of the service.
type Events struct {
	VIPTransitions uint64            `json:"vipTransitions"` // VIPs that this host gained or lost
	TableRepairs   uint64            `json:"tableRepairs"`   // replacements of a table that another program had changed
	Reloads        map[string]uint64 `json:"reloads"`        // by result

	// VIPTests are the tests of API VIPs that this host did not hold, by result.
	VIPTests map[VIPTestResult]uint64 `json:"vipTests"`

	// LastRuleDelay is the time from the kernel's last event that changed the held VIPs to
	// the committed table.
	LastRuleDelay float64 `json:"lastRuleDelayMicroseconds"`
}

// The results of a reload.
const (
	ReloadAccepted  = "accepted"
	ReloadRejected  = "rejected"
	ReloadUnchanged = "unchanged"
)
