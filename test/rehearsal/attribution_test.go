// SPDX-License-Identifier: Apache-2.0

package rehearsal

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// begin is a time for tests.
var begin = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time {
	return begin.Add(time.Duration(seconds * float64(time.Second)))
}

// opened returns a connection that existed from a time to another one, and got a status.
func opened(from, to float64, status int) connection {
	return connection{
		client: netip.MustParseAddrPort("10.128.0.2:40000"), vip: netip.MustParseAddr("192.0.2.5"),
		opened: at(from), established: at(from), last: at(to), status: status,
	}
}

// testFaults is one fault of 2 s on master1.
func testFaults() []fault {
	node := &lab.ControlPlaneNode{Node: &lab.Node{Name: "master1"}, Index: 1}
	return []fault{{title: "the VIPs move", node: node, begin: at(10), end: at(12)}}
}

// TestAttributeConnections holds that only a connection that lived during a fault may fail.
func TestAttributeConnections(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		connection connection
		cut        bool
		err        string
	}{
		"answered":                {opened(1, 2, 200), false, ""},
		"no route yet":            {opened(1, 2, 503), false, ""},
		"cut by the fault":        {opened(9, 11, 0), true, ""},
		"ended later":             {opened(11, 17, 0), true, ""},
		"502 during the fault":    {opened(11, 11, 502), true, ""},
		"ended before the fault":  {opened(8, 9.9, 0), false, "no fault explains the connection 10.128.0.2:40000 to 192.0.2.5"},
		"opened after its end":    {opened(12.1, 17, 0), false, "no fault explains"},
		"502 without a fault":     {opened(1, 2, 502), false, "12:00:01.000 to 12:00:02.000: 502"},
		"another path of service": {opened(20, 20, 400), false, "no fault explains"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cuts, err := attributeConnections([]connection{tt.connection}, testFaults())
			if got := len(cuts) == 1; got != tt.cut {
				t.Errorf("cut: %v, want %v", got, tt.cut)
			}
			if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
				t.Errorf("error %v, want %q", err, tt.err)
			}
		})
	}
}

// TestAttributeRejections holds that each rejection needs a connection of its own, which a
// fault on the same node has cut.
func TestAttributeRejections(t *testing.T) {
	t.Parallel()
	cuts := func() []*cut {
		all, err := attributeConnections([]connection{opened(9.5, 20, 0)}, testFaults())
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	one := rejection{"master1", at(40), "head-timeout"}
	lines, err := attributeRejections([]rejection{one}, cuts())
	want := []string{"head-timeout on master1: 10.128.0.2:40000 to 192.0.2.5, 12:00:09.500 to 12:00:20.000: no request (the VIPs move)"}
	if diff := cmp.Diff(want, lines); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for name, rejected := range map[string][]rejection{
		"twice":                   {one, one},
		"on another node":         {{"master0", at(40), "head-timeout"}},
		"in an earlier minute":    {{"master1", at(9), "head-timeout"}},
		"in a much later minute":  {{"master1", at(200), "head-timeout"}},
		"without any connections": {{"master2", at(40), "client-gone"}},
	} {
		if _, err := attributeRejections(rejected, cuts()); err == nil || !strings.Contains(err.Error(), "no fault explains the rejection") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// TestRejections reads the journal's summaries.
func TestRejections(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	text := `time=2026-11-25T12:00:59.000Z level=INFO msg="Serving: holds 192.0.2.5" event=state
time=2026-11-25T12:01:00.000Z level=INFO msg="3 requests rejected in the last minute: 1 client-gone, 2 head-timeout" event=rejected rejected_client_gone=1 rejected_head_timeout=2 count=3
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	all, err := rejections("master1", path)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range all {
		if !r.at.Equal(at(60)) || r.node != "master1" {
			t.Errorf("%+v", r)
		}
		got = append(got, r.reason)
	}
	if diff := cmp.Diff([]string{"client-gone", "head-timeout", "head-timeout"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestCapture holds that a connection has what its packets show.
func TestCapture(t *testing.T) {
	t.Parallel()
	client, vip := netip.MustParseAddrPort("[fd00::2]:40000"), netip.MustParseAddrPort("[fd00::5]:80")
	c := capture{last: map[flow]*connection{}}
	syn := segment{from: client, to: vip, sequence: 1, syn: true}
	for i, s := range []segment{
		syn, syn, // sent again
		{from: vip, to: client, syn: true, ack: true},
		{from: client, to: vip, sequence: 2, ack: true, data: []byte("GET /.well-known/acme-challenge/token HTTP/1.1\r\n")},
		{from: vip, to: client, ack: true, data: []byte("HTTP/1.1 503 Service Unavailable\r\n")},
		{from: client, to: vip, sequence: 9, syn: true}, // the port is used again
		{from: vip, to: client, rst: true},
	} {
		c.see(s, at(float64(i)))
	}
	var got []string
	for _, one := range c.connections(vip.Addr()) {
		got = append(got, one.token+" "+one.outcome())
	}
	if diff := cmp.Diff([]string{"token 503", " connection refused"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
