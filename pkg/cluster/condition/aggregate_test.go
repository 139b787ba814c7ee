// SPDX-License-Identifier: Apache-2.0

package condition_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/condition"
	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/nodes"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

const (
	vip4 = "192.0.2.5"
	vip6 = "2001:db8::5"
)

func at(minute int) time.Time { return time.Date(2026, 1, 2, 3, minute, 0, 0, time.UTC) }

// host is a host whose condition has not changed since that minute. VIPs are an
// address, a state, the minute of the last change, which reports of earlier versions
// lack, and the management.
func host(t *testing.T, name string, reason report.Reason, minute int, vips ...string) condition.HostReport {
	t.Helper()
	said := "False"
	switch {
	case reason.Ready():
		said = "True"
	case reason == report.NotReachable:
		said = "Unknown"
	}
	var listed []string
	for _, v := range vips {
		field := append(strings.Fields(v), "", "")
		since := ""
		if field[2] != "" {
			m, err := strconv.Atoi(field[2])
			if err != nil {
				t.Fatal(err)
			}
			since = `, "since": "` + at(m).Format(time.RFC3339) + `"`
		}
		listed = append(listed, fmt.Sprintf(`{"address": %q, "family": "", "state": %q, "management": %q%s}`, field[0],
			field[1], field[3], since))
	}
	h := condition.Read(nodes.Output{
		Node: name,
		Document: fmt.Appendf(nil, `{"version": "1.0", "conditions": [{"type": "Other", "status": "False"},
		{"type": "HTTP01ChallengeProxyReady", "status": %q, "reason": %q, "message": "reason %s", "lastTransitionTime": %q}], "vips": [%s]}`,
			said, reason, reason, at(minute).Format(time.RFC3339), strings.Join(listed, ",")),
	})
	if h.Problem != "" {
		t.Fatal(h.Problem)
	}
	return h
}

// TestAggregate: the condition of the cluster, and its transition time.
func TestAggregate(t *testing.T) {
	t.Parallel()
	const held4, held6, standby4, standby6, shared4 = vip4 + " Held", vip6 + " Held", vip4 + " Standby", vip6 + " Standby",
		vip4 + " NotRequired"
	const bgp4, bgpStandby4 = vip4 + " Held 1 BGP", vip4 + " Standby 7 BGP"
	serving := func(name string, minute int) condition.HostReport {
		return host(t, name, report.Serving, minute, held4)
	}
	standby := func(name string, minute int) condition.HostReport {
		return host(t, name, report.Standby, minute, standby4)
	}
	silent := func(name string, observed time.Time) condition.HostReport {
		return condition.HostReport{Name: name, Problem: "no report", Observed: observed}
	}
	for name, tt := range map[string]struct {
		hosts   []condition.HostReport
		status  string
		reason  report.Reason
		minute  int
		message string
	}{
		"served by one": {
			[]condition.HostReport{standby("m0", 9), serving("m1", 3), standby("m2", 8)},
			"True",
			report.Serving, 3, "192.0.2.5 is held and served by m1",
		},
		"both families, two masters": {
			[]condition.HostReport{host(t, "m0", report.Serving, 4, held4, standby6), host(t, "m1", report.Serving, 5, held6,
				standby4)},
			"True", report.Serving, 5, "192.0.2.5 is held and served by m0; 2001:db8::5 is held and served by m1",
		},
		"none required": {
			[]condition.HostReport{
				host(t, "m0", report.NotRequired, 1, shared4),
				host(t, "m1", report.NotRequired, 2),
			},
			"True", report.NotRequired, 2,
			"reason NotRequired; the API VIPs differ: 192.0.2.5 on m0, none on m1",
		},

		"held twice": {
			[]condition.HostReport{serving("m0", 1), standby("m1", 9), serving("m2", 5)},
			"False",
			condition.VIPHeldTwice, 5, "192.0.2.5 is held by m0 and m2",
		},
		"held twice, by sick": {
			[]condition.HostReport{serving("m0", 1), host(t, "m1", report.PortInUse, 2, held4)},
			"False",
			condition.VIPHeldTwice, 2, "192.0.2.5 is held by m0 and m1; m1 is not ready (PortInUse): reason PortInUse",
		},
		"held by none": {
			[]condition.HostReport{standby("m0", 1), standby("m1", 7)},
			"False", condition.VIPNotHeld, 7,
			"no host holds 192.0.2.5",
		},

		"held, not served": {
			[]condition.HostReport{
				host(t, "m0", report.UpstreamUnreachable, 6, held4),
				standby("m1", 9),
			},
			"False", report.UpstreamUnreachable, 6,
			"m0 is not ready (UpstreamUnreachable): reason UpstreamUnreachable",
		},
		"a standby that is ill": {
			[]condition.HostReport{serving("m0", 1), host(t, "m1", report.PortInUse, 9,
				standby4)},
			"True", report.Serving, 1,
			"192.0.2.5 is held and served by m0; m1 is not ready (PortInUse): reason PortInUse",
		},
		"one that is off": {
			[]condition.HostReport{serving("m0", 1), host(t, "m1", report.Disabled, 9)},
			"True",
			report.Serving, 1, "192.0.2.5 is held and served by m0; m1 is not ready (Disabled): reason Disabled",
		},
		"one that is off may have it": {
			[]condition.HostReport{standby("m0", 1), host(t, "m1", report.Disabled, 9)},
			"False",
			report.Disabled, 9, "no host reports that it holds 192.0.2.5; m1 is not ready (Disabled): reason Disabled",
		},
		"an ill one may have it": {
			[]condition.HostReport{standby("m0", 1), host(t, "m1", report.Disabled, 4), host(t, "m2", report.InvalidConfig, 5)},
			"False", report.InvalidConfig, 5,
			"no host reports that it holds 192.0.2.5; m1 is not ready (Disabled): reason Disabled; m2 is not ready " +
				"(InvalidConfig): reason InvalidConfig",
		},
		"disabled everywhere": {
			[]condition.HostReport{host(t, "m0", report.Disabled, 4), host(t, "m1", report.Disabled,
				5)},
			"False", report.Disabled, 4,
			"m0 is not ready (Disabled): reason Disabled; m1 is not ready (Disabled): reason Disabled",
		},
		"a reason of later": {
			[]condition.HostReport{
				host(t, "m0", report.InvalidConfig, 4),
				host(t, "m1", "Moonstruck", 5),
			},
			"False", "Moonstruck", 5,
			"m0 is not ready (InvalidConfig): reason InvalidConfig; m1 is not ready (Moonstruck): reason Moonstruck",
		},
		"one does not answer": {
			[]condition.HostReport{serving("m0", 1), silent("m1", at(8))},
			"Unknown",
			report.NotReachable, 8, "m1: no report",
		},
		"may be on a silent host": {
			[]condition.HostReport{standby("m0", 1), silent("m1", at(8))},
			"Unknown",
			report.NotReachable, 8, "no host reports that it holds 192.0.2.5; m1: no report",
		},
		"none answers": {
			[]condition.HostReport{silent("m0", at(3)), silent("m1", at(8))},
			"Unknown",
			report.NotReachable, 8, "m0: no report; m1: no report",
		},
		"not answering, no time": {
			[]condition.HostReport{serving("m0", 1), silent("m1", time.Time{})},
			"Unknown",
			report.NotReachable, 1, "m1: no report",
		},
		"no time at all": {
			[]condition.HostReport{silent("m1", time.Time{})},
			"Unknown", report.NotReachable, 59,
			"m1: no report",
		},
		"reported by the host": {
			[]condition.HostReport{host(t, "m0", report.NotReachable, 7)},
			"Unknown",
			report.NotReachable, 7, "m0: reason NotReachable",
		},
		"False before Unknown": {
			[]condition.HostReport{host(t, "m0", report.PortInUse, 2, held4), silent("m1", at(8))},
			"False", report.PortInUse, 2, "m0 is not ready (PortInUse): reason PortInUse; m1: no report",
		},

		"BGP, served by all": {
			[]condition.HostReport{
				host(t, "m0", report.Serving, 1, bgp4), host(t, "m1", report.Serving, 2, vip4+" Held 7 BGP"),
				host(t, "m2", report.Serving, 3, bgp4),
			},
			"True", report.Serving, 7, "192.0.2.5 is held and served by m0, m1 and m2",
		},
		"BGP, one without a healthy API server": {
			[]condition.HostReport{
				host(t, "m0", report.Serving, 1, bgp4), host(t, "m1", report.Standby, 9, bgpStandby4),
				host(t, "m2", report.Serving, 3, bgp4),
			},
			"True", report.Serving, 3, "192.0.2.5 is held and served by m0 and m2",
		},
		"BGP, one holder is ill": {
			[]condition.HostReport{
				host(t, "m0", report.Serving, 1, bgp4), host(t, "m1", report.UpstreamUnreachable, 6, bgp4),
				host(t, "m2", report.PortInUse, 7, bgp4),
			},
			"False", report.PortInUse, 7,
			"m1 is not ready (UpstreamUnreachable): reason UpstreamUnreachable; m2 is not ready (PortInUse): reason PortInUse",
		},

		"BGP, one silent": {
			[]condition.HostReport{
				host(t, "m0", report.Serving, 1, bgp4), host(t, "m1", report.Serving, 2, bgp4),
				silent("m2", at(8)),
			},
			"Unknown", report.NotReachable, 8, "m2: no report",
		},
		"BGP, not yet configured on one": {
			[]condition.HostReport{host(t, "m0", report.Serving, 1, bgp4), serving("m1", 3)},
			"True", report.Serving, 3,
			"192.0.2.5 is held and served by m0 and m1; the API VIPs differ: 192.0.2.5 on m1, 192.0.2.5 by BGP on m0",
		},
		"a management of later": {
			[]condition.HostReport{host(t, "m0", report.Serving, 1, vip4+" Held 1 OSPF"), host(t, "m1", report.Serving, 2,
				vip4+" Held 2 OSPF")},
			"False", condition.VIPHeldTwice, 2, "192.0.2.5 is held by m0 and m1",
		},
		"served since it moved": {
			[]condition.HostReport{host(t, "m0", report.Standby, 1, vip4+" Standby 8"), host(t, "m1", report.Serving, 2,
				vip4+" Held 8")},
			"True", report.Serving, 8, "192.0.2.5 is held and served by m1",
		},
		"served since the fix": {
			[]condition.HostReport{host(t, "m0", report.Serving, 9, vip4+" Held 2"), host(t, "m1", report.Standby, 1,
				vip4+" Standby 2")},
			"True", report.Serving, 9, "192.0.2.5 is held and served by m0",
		},
		"ill since the VIP came": {
			[]condition.HostReport{host(t, "m0", report.PortInUse, 2, vip4+" Held 7"), host(t, "m1", report.Standby, 1,
				vip4+" Standby 7")},
			"False", report.PortInUse, 7, "m0 is not ready (PortInUse): reason PortInUse",
		},
		"held by none since the last lost it": {
			[]condition.HostReport{host(t, "m0", report.Standby, 1, vip4+" Standby 6"), host(t, "m1", report.Standby, 2,
				vip4+" Standby 2")},
			"False", condition.VIPNotHeld, 6, "no host holds 192.0.2.5",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := report.Condition{
				Type: "HTTP01ChallengeProxyReady", Status: tt.status, Reason: tt.reason,
				Message: tt.message + coverage(tt.hosts), LastTransitionTime: at(tt.minute),
			}
			got := condition.ClusterStatus(tt.hosts, at(59)).Condition
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			reversed := slices.Clone(tt.hosts)
			slices.Reverse(reversed)
			if diff := cmp.Diff(got, condition.ClusterStatus(reversed, at(59)).Condition); diff != "" {
				t.Errorf("again, in another order (-first +second):\n%s", diff)
			}
		})
	}
}

// coverage is the end of every message about hosts.
func coverage(hosts []condition.HostReport) string {
	said := 0
	for _, h := range hosts {
		if s := h.Condition.Status; s == "True" || s == "False" {
			said++
		}
	}
	switch {
	case said < len(hosts):
		return fmt.Sprintf("; %d of %d hosts have reported", said, len(hosts))
	case said == 1:
		return "; 1 host has reported"
	}
	return fmt.Sprintf("; %d hosts have reported", said)
}

// TestClockAhead: no transition is in the future, and the clock is named.
func TestClockAhead(t *testing.T) {
	t.Parallel()
	h := host(t, "m0", report.Serving, 50, vip4+" Held")
	h.Time = at(50)
	got := condition.ClusterStatus([]condition.HostReport{h}, at(10)).Condition
	const want = "192.0.2.5 is held and served by m0; the report of m0 is from 2026-01-02T03:50:00Z: its clock is " +
		"ahead by 40m0s, or the clock of this machine is behind; 1 host has reported"
	if got.Status != "True" || got.Message != want || !got.LastTransitionTime.Equal(at(10)) {
		t.Errorf("%+v", got)
	}
}

// TestRead: a text that is not a report differs from a report of another version.
func TestRead(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"hello": "invalid character 'h' looking for beginning of value",
		"{}":    "not a report of the service: no condition HTTP01ChallengeProxyReady with a reason",
		`{"conditions": [{"type": "HTTP01ChallengeProxyReady", "status": "True", "reason": "has space\n!"}]}`: "not a report of the service: no condition HTTP01ChallengeProxyReady with a reason",
		`{"kind": "Error", "message": "cannot connect\u001b: start the service"}`:                             "cannot connect : start the service",
		`{"kind": "Check", "outcome": "ok"}`:                                                                  `not a Status, but of the kind "Check"`,
		`{"conditions": [{"type": "HTTP01ChallengeProxyReady", "reason": "A"}], "vips": [` + strings.Repeat(`{},`, 100) +
			`{}]}`: "not a report of the service: 101 VIPs, 0 tests",
		`{"new": 1, "conditions": [{"type": "HTTP01ChallengeProxyReady", "status": "True", "reason": "New", "new": {}}], "vips": null}`: "",
	} {
		h := condition.Read(nodes.Output{Node: "m0", Document: []byte(text)})
		if h.Problem != want || want != "" &&
			h.Remediation != "Run the command by hand: oc debug node/m0 -- chroot /host http01-proxyd status" {
			t.Errorf("%s: %q, %s", text, h.Problem, h.Remediation)
		}
	}
}

// TestLongMessage: the limit of Kubernetes.
func TestLongMessage(t *testing.T) {
	t.Parallel()
	got := condition.ClusterStatus([]condition.HostReport{{Name: "m0", Problem: strings.Repeat("é", 40000)}},
		at(0)).Condition.Message
	if len(got) > 32<<10 || !strings.HasSuffix(got, "é…") {
		t.Errorf("%d bytes", len(got))
	}
}
