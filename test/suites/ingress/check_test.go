// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"slices"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// missing has the findings about parts that this lab lacks: an API server, a name with
// addresses of both families.
var missing = []string{"api-server-unreachable", "dns-family-missing"}

// check runs the check command on the holder. Besides the findings of missing, the report must
// contain exactly one finding with one of the IDs, or none without IDs.
func (p *fixture) check(t *testing.T, ids []string, flags ...string) lab.CheckReport {
	t.Helper()
	r, code, err := p.holder().Check(t.Context(), shared.binary, append([]string{"--name", apiName}, flags...)...)
	must(t, err)
	got := slices.DeleteFunc(r.IDs(), func(id string) bool { return slices.Contains(missing, id) })
	if len(got) != min(len(ids), 1) || len(got) == 1 && !slices.Contains(ids, got[0]) {
		t.Errorf("check finds %q, want one of %q\n%+v", got, ids, r)
	}
	want := 0
	switch {
	case r.Outcome == "problem":
		want = 3
	case len(r.Incomplete) > 0:
		want = 4
	}
	if code != want {
		t.Errorf("exit code %d with the outcome %q, incomplete: %q", code, r.Outcome, r.Incomplete)
	}
	return r
}
