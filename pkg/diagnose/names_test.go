// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPublicNames(t *testing.T) {
	t.Parallel()
	got := publicNames([]string{"kubernetes", "api-int.a.b", "API.a.b", "api.a.b", "api.c", "*.apps.a.b"})
	if diff := cmp.Diff([]string{"api.a.b", "api.c"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		o    Options
		want string // in the error; empty: none
	}{
		{Options{}, ""},
		{Options{APIName: "api.cluster.example.com", Token: "evaGxfADs6pSRb2LAv9IZf17Dt3juxGJ-PCt92wr-oA"}, ""},
		{Options{APIName: "api.cluster.example.com:6443"}, "not a host name"},
		{Options{APIName: "https://api.x.y"}, "not a host name"},
		{Options{APIName: "192.0.2.5"}, "explain route-missing-for-address"},
		{Options{APIName: "2001:db8::5"}, "explain route-missing-for-address"},
		{Options{APIName: "[2001:db8::5]"}, "explain route-missing-for-address"},
		{Options{APIName: "a_b"}, ""}, // allowed in hosts
		{Options{APIName: "*.x.y"}, "use a DNS-01 solver"},
		{Options{APIName: "x.*.y"}, "not a host name"},
		{Options{Token: "a b"}, "only letters"},
		{Options{Token: "x\r\nHost: y"}, "only letters"},
		{Options{Token: "../x"}, "only letters"},
	} {
		got := tt.o.Validate()
		if (got != nil) != (tt.want != "") || got != nil && !strings.Contains(got.Error(), tt.want) {
			t.Errorf("%+v: %v", tt.o, got)
		}
	}
}
