// SPDX-License-Identifier: Apache-2.0

package report

import (
	"net/netip"
	"slices"
	"time"
)

// Report is everything that the service tells about itself, as
// `status -o json` prints it.
type Report struct {
	// Time is when the service has said this: UTC, in whole seconds.
	Time       time.Time   `json:"time,omitzero"`
	Version    string      `json:"version"`
	Build      Build       `json:"build"`
	Conditions []Condition `json:"conditions"` // first the one of type ConditionType, then those of parts
	VIPs       []VIP       `json:"vips"`
	Table      Table       `json:"table"`
	Upstreams  []Upstream  `json:"upstreams"`
	Challenges Challenges  `json:"challenges"`
	Config     Config      `json:"config"`

	Traffic      Traffic       `json:"traffic"`
	Events       Events        `json:"events"`
	Certificates []Certificate `json:"certificates"` // that the API server presents
	Metrics      Metrics       `json:"metrics"`
	Trust        Trust         `json:"trust"`
	EgressProxy  EgressProxy   `json:"egressProxy"`
}

// Metrics says whether Prometheus finds any. The zero value: none are wanted.
type Metrics struct {
	Address string `json:"address,omitempty"` // metrics.listenAddress
	Served  bool   `json:"served"`
	Error   string `json:"error,omitempty"` // why not
}

// VIPState says what an API VIP is to this host.
type VIPState string

// The states of an API VIP.
const (
	VIPHeld        VIPState = "Held"
	VIPStandby     VIPState = "Standby"
	VIPNotRequired VIPState = "NotRequired"
)

// VIP is one API VIP.
type VIP struct {
	Address netip.Addr `json:"address"`
	Family  string     `json:"family"` // IPv4 or IPv6
	State   VIPState   `json:"state"`
	// Since is when the service first saw it so: UTC, in whole seconds.
	Since time.Time `json:"since,omitzero"`
}

// carrySince gives each VIP the time of before if it is as it was, and now otherwise.
func carrySince(before, vips []VIP, now time.Time) []VIP {
	dated := slices.Clone(vips)
	for i, v := range dated {
		same := func(b VIP) bool { return b.Address == v.Address && b.State == v.State }
		if at := slices.IndexFunc(before, same); at >= 0 {
			dated[i].Since = before[at].Since
		} else {
			dated[i].Since = now.UTC().Truncate(time.Second)
		}
	}
	return dated
}

// Table is what the kernel holds under our table's name, read back from it.
type Table struct {
	Present  bool         `json:"present"`
	Owned    bool         `json:"owned"`    // by this process: others can neither flush nor change it
	Port     uint16       `json:"port"`     // where VIP:80 is led; 0 when not present
	Elements []netip.Addr `json:"elements"` // the Answered in its sets
	Counters []Counter    `json:"counters"`
	Error    string       `json:"error,omitempty"` // why it could not be read
}

// Counter is one rule's packet count.
type Counter struct {
	Chain   string `json:"chain"`
	Rule    string `json:"rule"`
	Packets uint64 `json:"packets"`
	Bytes   uint64 `json:"bytes"`
}

// Upstream is one ingress address and whether it took the last connection.
type Upstream struct {
	Address   netip.AddrPort `json:"address"`
	Reachable bool           `json:"reachable"`
	Checked   time.Time      `json:"checked,omitzero"` // zero: not tried yet
	Error     string         `json:"error,omitempty"`
}

// Challenges counts what the gate has seen since the service started.
type Challenges struct {
	Total   uint64             `json:"total"`   // forwarded to the ingress
	Refused map[Refusal]uint64 `json:"refused"` // answered without asking the ingress
	Recent  []RecentChallenge  `json:"recent"`  // the last 20, oldest first
}

// RecentChallenge is a Challenge in the form in which it is reported.
type RecentChallenge struct {
	Time        time.Time  `json:"time"`
	DurationMS  float64    `json:"durationMs"`
	VIP         string     `json:"vip"`
	Client      string     `json:"client"`
	Method      string     `json:"method"`
	Host        string     `json:"host"`
	TokenPrefix string     `json:"tokenPrefix"`
	ClientKind  ClientKind `json:"asker"`
	Outcome     Outcome    `json:"outcome"`
	Status      int        `json:"status"`
	Upstream    string     `json:"upstream,omitempty"`
	Cause       string     `json:"cause,omitempty"`
	Detail      string     `json:"detail,omitempty"`
}

// Config says which configuration is in force.
type Config struct {
	Source string `json:"source"` // of what is in force: file, default, last-accepted, or none
	Path   string `json:"path"`
	Error  string `json:"error,omitempty"` // why the file is refused
}

func (c Challenge) toRecent() RecentChallenge {
	r := RecentChallenge{
		Time:        c.Time,
		DurationMS:  float64(c.Duration.Microseconds()) / 1000,
		VIP:         c.VIP.String(),
		Client:      c.Client.String(),
		Method:      c.Method,
		Host:        c.Host,
		TokenPrefix: c.TokenPrefix,
		ClientKind:  c.ClientKind,
		Outcome:     c.Outcome,
		Status:      c.Status,
		Cause:       c.Cause,
		Detail:      c.Detail,
	}
	if c.Upstream.IsValid() {
		r.Upstream = c.Upstream.String()
	}
	return r
}
