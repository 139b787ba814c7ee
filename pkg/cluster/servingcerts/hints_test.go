// SPDX-License-Identifier: Apache-2.0

package servingcerts_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/pkg/cluster/servingcerts"
	"github.com/http01-proxyd/http01-proxyd/pkg/config"
)

const (
	document = "https://github.com/http01-proxyd/http01-proxyd/blob/main/docs/before-the-switch.md#"
	internal = ", by which the nodes reach the API. They trust only the cluster's own CA for it. "
	remove   = " from names, and from dnsNames of the Certificate. See " + document + "never-use-api-int."
)

func TestNamedCertificateHints(t *testing.T) {
	t.Parallel()
	named := func(names ...string) servingcerts.NamedCertificate {
		return servingcerts.NamedCertificate{Names: names}
	}
	const path = "spec.servingCerts.namedCertificates"
	const tooMany = path + " has 11 entries, but kube-apiserver-operator accepts at most 10 and keeps the previous certificates. Use one certificate for several names. See " + document + "at-most-ten-named-certificates."
	for name, tt := range map[string]struct {
		entries []servingcerts.NamedCertificate
		want    []string
	}{
		"none":          {nil, nil},
		"usual":         {[]servingcerts.NamedCertificate{named("api.ocp.example.com"), named()}, nil},
		"ten":           {slices.Repeat([]servingcerts.NamedCertificate{named("api.ocp.example.com")}, 10), nil},
		"eleven":        {slices.Repeat([]servingcerts.NamedCertificate{named("api.ocp.example.com")}, 11), []string{tooMany}},
		"a wildcard":    {[]servingcerts.NamedCertificate{named("*.ocp.example.com")}, nil}, // the cluster's own exact name takes precedence
		"similar names": {[]servingcerts.NamedCertificate{named("api-int", "api-internal.ocp.example.com", "x.api-int.ocp.example.com", "")}, nil},
		"api-int": {
			[]servingcerts.NamedCertificate{named("api.ocp.example.com"), named("console.example.com", "API-int.ocp.example.com.")},
			[]string{path + `[1].names[1] is API-int.ocp.example.com.` + internal + "Remove API-int.ocp.example.com." + remove},
		},
		"both": {
			slices.Concat(slices.Repeat([]servingcerts.NamedCertificate{named()}, 10), []servingcerts.NamedCertificate{named("api-int.a.b")}),
			[]string{tooMany, path + `[10].names[0] is api-int.a.b` + internal + "Remove api-int.a.b" + remove},
		},
		"not printable": {
			[]servingcerts.NamedCertificate{named("api-int." + strings.Repeat("a", 300)), named("api-int.a\x1b.b")}, nil, // no host names
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, h := range servingcerts.NamedCertificateHints(tt.entries) {
				got = append(got, h.String())
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestHostHints(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"":                                    nil,
		"hosts: [api.ocp.example.com]":        nil,
		"hosts: [api-int, api-inter.a.b]":     nil,
		"hosts: [api.a.b, API-INT.a.b., c.d]": {"hosts in my.yaml contains api-int.a.b" + internal + "Remove api-int.a.b from hosts, and from dnsNames of the Certificate. Never use it in spec.servingCerts.namedCertificates of apiserver/cluster. See " + document + "never-use-api-int."},
	} {
		c, err := config.Parse("my.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, h := range servingcerts.HostHints("my.yaml", c) {
			got = append(got, h.String())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}
