// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
)

func validUpstream() Upstream {
	return FromConfig(config.Default().Upstream, []netip.Addr{netip.MustParseAddr("192.0.2.6")})
}

// TestUpstreamIsValidated: the settings of a valid configuration are accepted after
// their encoding, and every bound is enforced.
func TestUpstreamIsValidated(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*Upstream)
		valid  bool
	}{
		"the default configuration": {func(*Upstream) {}, true},
		"no address":                {func(u *Upstream) { u.Addresses = nil }, true},
		"TLS without an HTTP port":  {func(u *Upstream) { u.TLS, u.Port = true, 0 }, true},
		"no HTTP port":              {func(u *Upstream) { u.Port = 0 }, false},
		"no HTTPS port":             {func(u *Upstream) { u.FollowRedirects, u.HTTPSPort = true, 0 }, false},
		"a missing address":         {func(u *Upstream) { u.Addresses = make([]netip.Addr, 1) }, false},
		"too many addresses":        {func(u *Upstream) { u.Addresses = make([]netip.Addr, maxAddresses+1) }, false},
		"PROXY protocol version 2":  {func(u *Upstream) { u.ProxyProtocol = ProxyProtocolV2 }, true},
		"PROXY protocol version 3":  {func(u *Upstream) { u.ProxyProtocol = 3 }, false},
		"no connect timeout":        {func(u *Upstream) { u.ConnectTimeout = 0 }, false},
		"a negative timeout":        {func(u *Upstream) { u.Timeout = -time.Second }, false},
		"a timeout of an hour":      {func(u *Upstream) { u.Timeout = time.Hour }, false},
		"an empty name":             {func(u *Upstream) { u.VerifyNames = []string{""} }, false},
		"a long name":               {func(u *Upstream) { u.VerifyNames = []string{strings.Repeat("a", maxNameBytes+1)} }, false},
		"too many names":            {func(u *Upstream) { u.VerifyNames = make([]string, maxNames+1) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := validUpstream()
			test.change(&want)
			text, err := json.Marshal(want)
			if err != nil {
				t.Fatal(err)
			}
			var got Upstream
			if err := json.Unmarshal(text, &got); (err == nil) != test.valid {
				t.Errorf("got %v", err)
			} else if err == nil && !reflect.DeepEqual(got, want) {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
	if err := new(Upstream).UnmarshalJSON([]byte(`{"address":[]}`)); err == nil {
		t.Error("an unknown field is accepted")
	}
}

// TestEgressEncoding: only the JSON form of an egress decision contains the secret,
// and it is complete.
func TestEgressEncoding(t *testing.T) {
	t.Parallel()
	want := Egress{
		Routes: []EgressRoute{{netip.MustParseAddrPort("192.0.2.6:443"), EgressProxy{
			Name: "proxy.example", TLS: true, Addrs: []netip.AddrPort{netip.MustParseAddrPort("192.0.2.9:3128")}, Authorization: NewSecret("Basic dTpw"),
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
	for name, text := range map[string]string{
		"an unknown field":          `{"route":[]}`,
		"an unknown field of proxy": `{"routes":[{"proxy":{"url":"x"}}]}`,
		"too many routes":           `{"routes":[` + strings.Repeat(`{"ingress":"192.0.2.6:80","proxy":{"name":"a","addrs":[]}},`, maxRoutes) + `{}]}`,
		"a long name":               `{"routes":[{"proxy":{"name":"` + strings.Repeat("a", maxNameBytes+1) + `"}}]}`,
	} {
		if err := new(Egress).UnmarshalJSON([]byte(text)); err == nil {
			t.Errorf("%s is accepted", name)
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

// FuzzUpstream: decoded settings are valid, and survive their encoding.
func FuzzUpstream(f *testing.F) {
	text, err := json.Marshal(validUpstream())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"addresses":["::1%a"],"port":1,"httpsPort":2,"connectTimeout":1,"timeout":1,"verifyNames":["*.a"]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var u, again Upstream
		if json.Unmarshal(text, &u) != nil {
			return
		}
		encoded, err := json.Marshal(u)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(encoded, &again); err != nil {
			t.Fatalf("%s: %v", encoded, err)
		}
		if twice, _ := json.Marshal(again); string(twice) != string(encoded) {
			t.Fatalf("%s becomes %s", encoded, twice)
		}
	})
}
