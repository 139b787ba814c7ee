// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestParseTable reads what nft 1.0.6 prints: a counter is not compared, and its value
// changes nothing.
func TestParseTable(t *testing.T) {
	t.Parallel()
	const text = `{"nftables": [{"metainfo": {"version": "1.0.6"}}, {"table": {"family": "inet", "name": "http01-proxyd", "handle": 1}},
{"set": {"family": "inet", "name": "api4", "table": "http01-proxyd", "type": "ipv4_addr", "handle": 1, "elem": ["10.77.0.6", "10.77.0.5"]}},
{"set": {"family": "inet", "name": "api6", "table": "http01-proxyd", "type": "ipv6_addr", "handle": 2}},
{"chain": {"family": "inet", "table": "http01-proxyd", "name": "input", "handle": 5, "type": "filter", "hook": "input", "prio": -1, "policy": "accept"}},
{"rule": {"family": "inet", "table": "http01-proxyd", "chain": "input", "handle": 9, "expr": [{"match": {"op": "==", "left": {"payload": {"protocol": "tcp", "field": "dport"}}, "right": 8888}}, {"counter": {"packets": 7, "bytes": 300}}, {"reject": {"type": "tcp reset"}}]}}]}`
	got, err := parseTable(text)
	if err != nil {
		t.Fatal(err)
	}
	want := &Table{
		Elements: []netip.Addr{netip.MustParseAddr("10.77.0.5"), netip.MustParseAddr("10.77.0.6")},
		Rules: []string{
			"chain input: type filter hook input priority -1",
			`input: {"match":{"left":{"payload":{"field":"dport","protocol":"tcp"}},"op":"==","right":8888}} counter {"reject":{"type":"tcp reset"}}`,
		},
	}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := parseTable("{"); err == nil {
		t.Error("a broken list is accepted")
	}
}
