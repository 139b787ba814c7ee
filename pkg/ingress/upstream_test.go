// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"
)

// TestEgressEncoding: only the JSON form of an egress decision contains the secret,
// and it is complete.
func TestEgressEncoding(t *testing.T) {
	t.Parallel()
	want := Egress{
		Routes: []EgressRoute{{netip.MustParseAddrPort("192.0.2.6:443"), EgressProxy{
			Name: "proxy.example", TLS: true, Addrs: []netip.AddrPort{netip.MustParseAddrPort("192.0.2.9:3128")},
			Authorization: NewSecret("Basic dTpw"),
		}}},
		ProxyCAs: CABundle{Roots: [][]byte{{1}, {2}}}, AdditionalCAs: CABundle{Roots: [][]byte{{3}}},
	}
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got Egress
	if err := json.Unmarshal(text, &got); err != nil || !got.Equal(want) {
		t.Errorf("decoded %+v, %v", got, err)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		for _, value := range []any{want, &want, want.Routes[0].Proxy} {
			if text := fmt.Sprintf(verb, value); strings.Contains(text, "dTpw") {
				t.Errorf("%s of %T: %s", verb, value, text)
			}
		}
	}
}

func TestCABundleUnion(t *testing.T) {
	t.Parallel()
	a, b := CABundle{[][]byte{{1}, {2}}, "a"}, CABundle{[][]byte{{2}, {3}}, "b"}
	for _, test := range []struct{ of, with, want CABundle }{
		{a, b, CABundle{[][]byte{{1}, {2}, {3}}, "a and b"}},
		{a, a, a},
		{a, CABundle{}, a},
		{CABundle{}, b, b},
	} {
		if got := test.of.Union(test.with); !got.Equal(test.want) {
			t.Errorf("%+v with %+v: %+v", test.of, test.with, got)
		}
	}
}
