// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
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
		o   Options
		bad bool
	}{
		{Options{}, false},
		{Options{APIName: "api.cluster.example.com", Token: "evaGxfADs6pSRb2LAv9IZf17Dt3juxGJ-PCt92wr-oA"}, false},
		{Options{APIName: "api.cluster.example.com:6443"}, true},
		{Options{APIName: "https://api.x.y"}, true},
		{Options{APIName: "192.0.2.5"}, true},
		{Options{APIName: "a_b"}, false}, // allowed in hosts
		{Options{APIName: "*.x.y"}, true},
		{Options{Token: "a b"}, true},
		{Options{Token: "x\r\nHost: y"}, true},
		{Options{Token: "../x"}, true},
	} {
		if got := tt.o.Validate(); (got != nil) != tt.bad {
			t.Errorf("%+v: %v", tt.o, got)
		}
	}
}
