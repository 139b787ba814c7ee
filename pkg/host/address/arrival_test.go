// SPDX-License-Identifier: Apache-2.0

//go:build linux

package address_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/internal/nstest"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/address"
)

// TestArrivalLinks: the links at which packets for a VIP are seen. The facts come from `ip -d
// link` on such hosts; the kernel of the tests does not support bond, VLAN, team and Open
// vSwitch.
func TestArrivalLinks(t *testing.T) {
	t.Parallel()
	ovs := []address.Link{
		{Index: 1, Name: "lo"},
		{Index: 2, Name: "eno1", Master: 4},
		{Index: 3, Name: "eno2", Master: 4},
		{Index: 4, Name: "bond0", Kind: "bond", Master: 5},
		{Index: 5, Name: "ovs-system", Kind: "openvswitch"},
		{Index: 6, Name: "br-ex", Kind: "openvswitch"},
		{Index: 7, Name: "br-int", Kind: "openvswitch"},
		{Index: 8, Name: "genev_sys_6081", Kind: "geneve", Master: 5},
		{Index: 10, Name: "eno3"},
	}
	for i := range uint32(250) {
		ovs = append(ovs, address.Link{Index: 11 + i, Name: "pod", Kind: "veth", Master: 5, Lower: 2})
	}
	bgp := []address.Link{
		{Index: 1, Name: "lo"},
		{Index: 2, Name: "eno1", Master: 3},
		{Index: 3, Name: "bond0", Kind: "bond"},
		{Index: 4, Name: "dummy0", Kind: "dummy"},
		{Index: 5, Name: "uplink", Kind: "veth", Lower: 2},
		{Index: 6, Name: "cni0", Kind: "bridge"},
		{Index: 7, Name: "pod", Kind: "veth", Master: 6, Lower: 2},
	}
	many := []address.Link{{Index: 1, Name: "br0", Kind: "bridge"}}
	for i := range uint32(200) {
		many = append(many, address.Link{Index: i + 2, Name: "port", Master: 1})
	}
	for name, tt := range map[string]struct {
		links []address.Link
		index uint32
		want  string
	}{
		"hardware": {[]address.Link{{Index: 2, Name: "eno1"}, {Index: 3, Name: "eno2"}}, 2, "eno1"},
		"bond": {[]address.Link{
			{Index: 2, Name: "eno1", Master: 4},
			{Index: 3, Name: "eno2", Master: 4},
			{Index: 4, Name: "bond0", Kind: "bond"},
		}, 4, "eno1 eno2 bond0"},
		"VLAN over a bond": {
			[]address.Link{
				{Index: 2, Name: "eno1", Master: 4},
				{Index: 4, Name: "bond0", Kind: "bond"},
				{Index: 5, Name: "bond0.7", Kind: "vlan", Lower: 4},
			},
			5,
			"eno1 bond0 bond0.7",
		},
		"bridge": {[]address.Link{
			{Index: 2, Name: "eno1", Master: 4},
			{Index: 3, Name: "vm0", Kind: "tun", Master: 4},
			{Index: 4, Name: "br0", Kind: "bridge"},
		}, 4, "eno1 vm0 br0"},
		"macvlan of keepalived (use_vmac)": {[]address.Link{
			{Index: 2, Name: "eno1"},
			{Index: 3, Name: "vrrp.51", Kind: "macvlan", Lower: 2},
		}, 3, "eno1 vrrp.51"},
		"team": {[]address.Link{
			{Index: 2, Name: "eno1", Master: 3},
			{Index: 3, Name: "team0", Kind: "team"},
		}, 3, "eno1 team0"},
		"br-ex of OpenShift over a bond": {ovs, 6, "eno1 eno2 bond0 br-ex"},
		"veth": {[]address.Link{
			{Index: 2, Name: "a", Kind: "veth", Lower: 3},
			{Index: 3, Name: "b", Kind: "veth", Lower: 2},
		}, 2, "a"},
		"lo":    {bgp, 1, "lo eno1 uplink"},
		"dummy": {bgp, 4, "eno1 dummy0 uplink"},
		"a loop": {[]address.Link{
			{Index: 2, Name: "a", Kind: "vlan", Lower: 3},
			{Index: 3, Name: "b", Kind: "vlan", Lower: 2},
		}, 2, "a b"},
		"a link that has gone": {nil, 2, ""},
	} {
		var names []string
		for _, l := range address.ArrivalLinks(tt.links, tt.index) {
			names = append(names, l.Name)
		}
		if diff := cmp.Diff(tt.want, strings.Join(names, " ")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if n := len(address.ArrivalLinks(many, 1)); n != 64 {
		t.Errorf("%d links of 201, want the first 64", n)
	}
}

// TestArrivalLinksOfKernel: bridge, veth and macvlan of the real kernel.
func TestArrivalLinksOfKernel(t *testing.T) {
	nstest.Require(t)
	for _, command := range []string{
		"link add ibr0 type bridge", "link add iport type veth peer name ifar", "link set iport master ibr0",
		"link add imac link ibr0 type macvlan mode bridge",
	} {
		nstest.Run(t, "ip", strings.Fields(command)...)
	}
	links, err := address.Links()
	if err != nil {
		t.Fatal(err)
	}
	top := links[slices.IndexFunc(links, func(l address.Link) bool { return l.Name == "imac" })]
	var names []string
	for _, l := range address.ArrivalLinks(links, top.Index) {
		names = append(names, l.Name)
	}
	slices.Sort(names)
	if diff := cmp.Diff([]string{"ibr0", "imac", "iport"}, names); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
