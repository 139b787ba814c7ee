// SPDX-License-Identifier: Apache-2.0

package rehearsal

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// begin is a time for tests.
var begin = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time {
	return begin.Add(time.Duration(seconds * float64(time.Second)))
}

// vip4 is the VIP of the connections.
var vip4 = netip.MustParseAddr("192.0.2.5")

// opened returns a connection that existed from a time to another one, and got a status.
func opened(from, to float64, status int) connection {
	return connection{
		node: "pod0", client: netip.MustParseAddrPort("10.128.0.2:40000"), vip: vip4,
		opened: at(from), established: at(from), last: at(to), status: status,
	}
}

// left returns a connection over IPv6 that its client has closed without a request.
func left(from, to float64) connection {
	return connection{
		node: "pod0", client: netip.MustParseAddrPort("[fd00::2]:40000"), vip: netip.MustParseAddr("fd00::5"),
		opened: at(from), established: at(from), last: at(to), abandoned: true,
	}
}

// testFaults is one fault of 2 s, which moves the VIPs from master1 to master2.
func testFaults() []fault {
	node := func(name string) *lab.ControlPlaneNode { return &lab.ControlPlaneNode{Node: &lab.Node{Name: name}} }
	return []fault{{title: "the VIPs move", node: node("master1"), next: node("master2"), begin: at(10), end: at(12)}}
}

// TestAttributeConnections holds that only a connection that lived during a fault may fail.
func TestAttributeConnections(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		connection connection
		unanswered bool
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
			failures, err := attributeConnections([]connection{tt.connection}, testFaults(), nil)
			if got := len(failures) == 1; got != tt.unanswered {
				t.Errorf("unanswered: %v, want %v", got, tt.unanswered)
			}
			if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
				t.Errorf("error %v, want %q", err, tt.err)
			}
		})
	}
}

// TestOtherFamily holds that a client may give a connection up only for another one that
// existed at the same time, went to the other family and was answered.
func TestOtherFamily(t *testing.T) {
	t.Parallel()
	change := func(c connection, change func(*connection)) connection { change(&c); return c }
	tests := map[string]struct {
		connections []connection
		want        []string // the nodes that held the VIPs
	}{
		"first":             {[]connection{left(1, 1.5), opened(1.3, 1.6, 200)}, []string{"master1"}},
		"second":            {[]connection{left(20.3, 20.5), opened(20, 20.4, 503)}, []string{"master2"}},
		"alone":             {[]connection{left(1, 1.5)}, nil},
		"later":             {[]connection{left(1, 1.5), opened(1.6, 1.7, 200)}, nil},
		"failed too":        {[]connection{left(9, 10.5), opened(9, 11, 502), left(1, 1.5), opened(1, 1.5, 502)}, nil},
		"same family":       {[]connection{change(left(1, 1.5), func(c *connection) { c.vip = vip4 }), opened(1.3, 1.6, 200)}, nil},
		"other client":      {[]connection{change(left(1, 1.5), func(c *connection) { c.node = "pod1" }), opened(1.3, 1.6, 200)}, nil},
		"reset":             {[]connection{change(left(1, 1.5), func(c *connection) { c.abandoned = false }), opened(1.3, 1.6, 200)}, nil},
		"no connection":     {[]connection{left(1, 1.5), change(opened(1.3, 1.6, 200), func(c *connection) { c.established = time.Time{} })}, nil},
		"established later": {[]connection{left(1, 1.5), change(opened(1.3, 1.7, 200), func(c *connection) { c.established = at(1.6) })}, nil},
		"same port again": {[]connection{
			left(1, 1.5), opened(1.3, 1.6, 200), left(70, 70.5), opened(70.3, 70.6, 200),
		}, []string{"master1", "master2"}},
		"two for one": {[]connection{
			left(1, 1.5), opened(1.3, 1.6, 200),
			change(left(1, 1.5), func(c *connection) { c.client = netip.MustParseAddrPort("[fd00::2]:40002") }),
		}, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failures, err := attributeConnections(tt.connections, testFaults(), nil)
			if (err == nil) != (tt.want != nil) {
				t.Fatalf("error %v", err)
			}
			if err != nil {
				return
			}
			var got []string
			for _, c := range failures {
				got = append(got, c.holders...)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestAttributeRejections holds that each rejection needs a cause of its own on the same node:
// a connection without an answer, or a VIP that left during a request of the service.
func TestAttributeRejections(t *testing.T) {
	t.Parallel()
	failures := func() []*unanswered {
		all, err := attributeConnections([]connection{opened(9.5, 20, 0), left(50, 50.5), opened(50.3, 50.6, 200)}, testFaults(), nil)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	one := rejection{"master1", at(40), "head-timeout"}
	lost := []move{{"master0", at(11), vip4, false}}
	lines, err := attributeRejections([]rejection{one, {"master2", at(60), "client-gone"}, {"master0", at(40), "head-timeout"}}, failures(), lost)
	want := []string{
		"head-timeout on master1: 10.128.0.2:40000 to 192.0.2.5, 12:00:09.500 to 12:00:20.000: no request (the VIPs move)",
		"client-gone on master2: [fd00::2]:40000 to fd00::5, 12:00:50.000 to 12:00:50.500: no request (its client used the other address family)",
		"head-timeout on master0: request of the service to 192.0.2.5, which left at 12:00:11.000",
	}
	if diff := cmp.Diff(want, lines); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for name, rejected := range map[string][]rejection{
		"of another reason":      {{"master1", at(40), "loop"}},
		"twice":                  {one, one},
		"on another node":        {{"master3", at(40), "head-timeout"}},
		"in an earlier minute":   {{"master1", at(9), "head-timeout"}},
		"in a much later minute": {{"master1", at(200), "head-timeout"}},
		"two for one VIP":        {{"master0", at(40), "head-timeout"}, {"master0", at(40), "head-timeout"}},
		"before the VIP left":    {{"master0", at(10), "head-timeout"}},
	} {
		if _, err := attributeRejections(rejected, failures(), lost); err == nil || !strings.Contains(err.Error(), "the rejection (") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// TestBriefHolders holds that a rejection may be on a node that lost the VIP in the same fault.
func TestBriefHolders(t *testing.T) {
	t.Parallel()
	second := testFaults()[0]
	second.begin, second.end = at(30), at(31)
	faults := append(testFaults(), second)
	addBriefHolders(faults, []move{
		{"before", at(9), vip4, false},
		{"gained", at(11), vip4, true},
		{"master0", at(26.9), vip4, false},
		{"between", at(27.1), vip4, false},
		{"later", at(30), vip4, false},
		{"long after", at(60), vip4, false},
	})
	var got [][]string
	for _, f := range faults {
		got = append(got, f.holders())
	}
	want := [][]string{{"master1", "master2", "master0"}, {"master1", "master2", "later"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	failures, err := attributeConnections([]connection{opened(11, 11.5, 0)}, faults, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := attributeRejections([]rejection{{"master0", at(40), "client-gone"}}, failures, nil); err != nil {
		t.Error(err)
	}
}

// TestSecondMaster holds that a connection to a VIP may fail while another node than the holder
// had the VIP for a moment between faults.
func TestSecondMaster(t *testing.T) {
	t.Parallel()
	moment := func(node string, gained, lost float64) []move {
		return []move{{node, at(lost), vip4, false}, {node, at(gained), vip4, true}}
	}
	tests := map[string]struct {
		moves      []move
		connection connection
		want       []string // the nodes that held the VIP
	}{
		"refused":               {moment("master0", 60, 61), opened(60.5, 60.5, 0), []string{"master2", "master0"}},
		"before the first":      {moment("master0", 2, 3), opened(2.5, 2.5, 0), []string{"master1", "master0"}},
		"seen late":             {moment("master0", 60, 61), opened(56, 56, 0), []string{"master2", "master0"}},
		"wrong neighbour":       {moment("master0", 60, 61), opened(65, 69, 0), []string{"master2", "master0"}},
		"gained in the fault":   {moment("master0", 11, 13), opened(13, 13, 0), []string{"master2", "master0"}},
		"long before":           {moment("master0", 60, 61), opened(50, 54.9, 0), nil},
		"long after":            {moment("master0", 60, 61), opened(66.1, 66.1, 0), nil},
		"another VIP":           {moment("master0", 60, 61), left(60.5, 60.5), nil},
		"the holder":            {moment("master2", 60, 61), opened(60.5, 60.5, 0), nil},
		"too long":              {moment("master0", 60, 76), opened(61, 61, 0), nil},
		"never lost":            {moment("master0", 60, 61)[1:], opened(60.5, 60.5, 0), nil},
		"never gained":          {moment("master0", 60, 61)[:1], opened(60.5, 60.5, 0), nil},
		"lost in the fault":     {moment("master0", 9, 11), opened(8, 9, 0), nil},
		"gained on another one": {[]move{{"master3", at(60), vip4, true}, {"master0", at(61), vip4, false}}, opened(60.5, 60.5, 0), nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failures, err := attributeConnections([]connection{tt.connection}, testFaults(), secondMasters(tt.moves, testFaults()))
			if (err == nil) != (tt.want != nil) {
				t.Fatalf("error %v", err)
			}
			if err != nil {
				return
			}
			if diff := cmp.Diff(tt.want, failures[0].holders); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestAttributeUnfinished holds that a Challenge without a result needs an Order that does not
// exist any more.
func TestAttributeUnfinished(t *testing.T) {
	t.Parallel()
	all := []observedChallenge{
		{target: target{name: "valid.test"}, order: "one", valid: at(3)},
		{target: target{name: "invalid.test"}, order: "two", invalid: at(3)},
		{target: target{name: "replaced.test"}, order: "three"},
	}
	if replaced, err := attributeUnfinished(all, map[types.UID]bool{"one": true, "two": true}); replaced != 1 || err != nil {
		t.Errorf("%d replaced, error %v", replaced, err)
	}
	if _, err := attributeUnfinished([]observedChallenge{{target: target{name: "ownerless.test"}}}, nil); err == nil {
		t.Error("a Challenge without an Order needs none")
	}
	_, err := attributeUnfinished(all, map[types.UID]bool{"one": true, "two": true, "three": true})
	if err == nil || !strings.Contains(err.Error(), "the Challenge for replaced.test, created at") {
		t.Errorf("error %v", err)
	}
}

// TestAttributeInvalid holds that each invalid Challenge needs an unanswered connection of the CA.
func TestAttributeInvalid(t *testing.T) {
	t.Parallel()
	challenge := func(token string, created, invalid float64) observedChallenge {
		return observedChallenge{target: target{name: "a.test"}, token: token, created: at(created), invalid: at(invalid), reason: "connection refused"}
	}
	unansweredOf := func(node, token, cause string) *unanswered {
		c := opened(11, 11.5, 0)
		c.node, c.token = node, token
		return &unanswered{connection: c, cause: cause}
	}
	move := unansweredOf("internet", "", "the VIPs move")
	tests := map[string]struct {
		challenges []observedChallenge
		failures   []*unanswered
		ok         bool
	}{
		"valid":                {[]observedChallenge{{valid: at(3)}}, nil, true},
		"no connection":        {[]observedChallenge{challenge("one", 1, 12)}, []*unanswered{move}, true},
		"its token":            {[]observedChallenge{challenge("one", 1, 12)}, []*unanswered{unansweredOf("internet", "one", "the VIPs move")}, true},
		"another token":        {[]observedChallenge{challenge("one", 1, 12)}, []*unanswered{unansweredOf("internet", "two", "the VIPs move")}, false},
		"no unanswered one":    {[]observedChallenge{challenge("one", 1, 12)}, nil, false},
		"two for one":          {[]observedChallenge{challenge("one", 1, 12), challenge("two", 1, 12)}, []*unanswered{move}, false},
		"equal tokens first":   {[]observedChallenge{challenge("two", 1, 12), challenge("one", 1, 12)}, []*unanswered{move, unansweredOf("internet", "one", "the VIPs move")}, true},
		"in any order":         {[]observedChallenge{challenge("one", 1, 12), challenge("two", 1, 12)}, []*unanswered{move, unansweredOf("internet", "one", "the VIPs move")}, true},
		"shared authorization": {[]observedChallenge{challenge("one", 1, 12), challenge("one", 2, 12)}, []*unanswered{move}, true},
		"shared token":         {[]observedChallenge{challenge("one", 1, 12), challenge("one", 2, 12)}, []*unanswered{unansweredOf("internet", "one", "the VIPs move")}, true},
		"of the self check":    {[]observedChallenge{challenge("one", 1, 12)}, []*unanswered{unansweredOf("pod0", "", "the VIPs move")}, false},
		"no fault":             {[]observedChallenge{challenge("one", 1, 12)}, []*unanswered{unansweredOf("internet", "", otherFamily)}, false},
		"before it":            {[]observedChallenge{challenge("one", 1, 10)}, []*unanswered{move}, false},
		"after it":             {[]observedChallenge{challenge("one", 13, 14)}, []*unanswered{move}, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := attributeInvalid(tt.challenges, tt.failures, "internet"); (err == nil) != tt.ok {
				t.Errorf("error %v", err)
			}
		})
	}
}

// TestRejections reads the journal's summaries, and the VIPs that have left.
func TestRejections(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	text := `time=2026-11-25T12:00:59.000Z level=INFO msg="Serving: holds 192.0.2.5" event=state
time=2026-11-25T12:00:59.500Z level=INFO msg="VIP 192.0.2.5 left this host" event=vip-lost vip=192.0.2.5
time=2026-11-25T12:00:59.750Z level=INFO msg="VIP fd00::5 arrived" event=vip-gained vip=fd00::5
time=2026-11-25T12:01:00.000Z level=INFO msg="3 requests rejected in the last minute: 1 client-gone, 2 head-timeout" event=rejected rejected_client_gone=1 rejected_head_timeout=2 count=3
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	all, err := rejections("master1", path)
	if err != nil {
		t.Fatal(err)
	}
	moved, err := moves("master1", path)
	want := []string{"master1 59.5s 192.0.2.5 false", "master1 59.75s fd00::5 true"}
	var seen []string
	for _, m := range moved {
		seen = append(seen, fmt.Sprintf("%s %v %v %v", m.node, m.at.Sub(begin), m.vip, m.gained))
	}
	if diff := cmp.Diff(want, seen); diff != "" || err != nil {
		t.Errorf("moves (-want +got), error %v:\n%s", err, diff)
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
	accepted := segment{from: vip, to: client, syn: true, ack: true}
	again := func(sequence uint32) segment { return segment{from: client, to: vip, sequence: sequence, syn: true} } // with the same port
	closed, reset := segment{from: client, to: vip, fin: true, ack: true}, segment{from: vip, to: client, rst: true}
	for i, s := range []segment{
		syn, syn, // sent again
		accepted,
		{from: client, to: vip, sequence: 2, ack: true, data: []byte("GET /.well-known/acme-challenge/token HTTP/1.1\r\n")},
		{from: vip, to: client, ack: true, data: []byte("HTTP/1.1 503 Service Unavailable\r\n")},
		closed,
		again(9), reset,
		again(20), accepted, closed, reset,
		again(30), accepted, reset, closed,
	} {
		c.see("pod0", s, at(float64(i)))
	}
	var got []string
	for _, one := range c.connections(vip.Addr()) {
		got = append(got, fmt.Sprintf("%s %s %s %v", one.node, one.token, one.outcome(), one.abandoned))
	}
	want := []string{"pod0 token 503 false", "pod0  connection refused false", "pod0  no request true", "pod0  no request false"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
