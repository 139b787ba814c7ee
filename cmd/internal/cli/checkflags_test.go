// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/cli"
)

func TestCheckFlags(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		f    cli.CheckFlags
		want string // in the error; empty: none
	}{
		{cli.CheckFlags{}, ""},
		{cli.CheckFlags{
			Name: "api.cluster.example.com", Token: "evaGxfADs6pSRb2LAv9IZf17Dt3juxGJ-PCt92wr-oA",
			Only: []string{"vip-holder", "dns"},
		}, ""},
		{cli.CheckFlags{Name: "api.cluster.example.com:6443"}, "use the host name alone, in lower case: api.cluster.example.com"},
		{cli.CheckFlags{Name: "https://API.x.y/version"}, "use the host name alone, in lower case: api.x.y"},
		{cli.CheckFlags{Name: "api.x.y."}, "use the host name alone, in lower case: api.x.y"},
		{cli.CheckFlags{Name: "192.0.2.5"}, "the finding route-missing-for-address"},
		{cli.CheckFlags{Name: "2001:db8::5"}, "the finding route-missing-for-address"},
		{cli.CheckFlags{Name: "[2001:db8::5]"}, "the finding route-missing-for-address"},
		{cli.CheckFlags{Name: "a_b"}, ""}, // allowed in hosts
		{cli.CheckFlags{Name: "*.x.y"}, "use a DNS-01 solver"},
		{cli.CheckFlags{Name: "x.*.y"}, "not a host name"},
		{cli.CheckFlags{Name: "x y"}, "not a host name"},
		{cli.CheckFlags{Token: "a b"}, "a token consists of letters"},
		{cli.CheckFlags{Token: "x\r\nHost: y"}, "a token consists of letters"},
		{cli.CheckFlags{Token: "../x"}, "a token consists of letters"},
		{cli.CheckFlags{Token: "evaGxfADs6.9jg46WB3rR"}, "use the part before the dot"},
		{cli.CheckFlags{Only: []string{"dns", "rulset"}}, `"rulset" is not a check: did you mean ruleset?`},
		{cli.CheckFlags{Only: []string{"firewall"}}, `"firewall" is not a check: use nftables, port, `},
	} {
		got := tt.f.Validate()
		if (got != nil) != (tt.want != "") || got != nil && !strings.Contains(got.Error(), tt.want) {
			t.Errorf("%+v: %v", tt.f, got)
		}
	}
}
