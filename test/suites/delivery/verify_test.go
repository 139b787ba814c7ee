// SPDX-License-Identifier: Apache-2.0

package delivery_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/test/support/oc"
)

// withPlatform adds the objects of the platform that `oc http01 verify` reads.
func withPlatform(next oc.Handler, apiAddress string) oc.Handler {
	return func(ctx context.Context, dir string, args ...string) (string, error) {
		switch strings.Join(args, " ") {
		case "get infrastructure cluster -o jsonpath={.status.apiServerURL}":
			return "https://" + apiAddress + ":6443", nil
		case "get clusterversion version -o jsonpath={.status.desired.version}":
			return "4.20.1", nil
		}
		return next(ctx, dir, args...)
	}
}

// expectVerification expects that the report has the outcome of each check on each host.
// The hosts have no SELinux.
func (a *admin) expectVerification() {
	a.t.Helper()
	report := must1(a.run(a.t.Context(), "oc http01 verify || test $? -eq 4"))(a.t)
	want := map[string]string{"B5 cluster": "as expected", "B7 cluster": "as expected"}
	for i, m := range a.ControlPlane {
		for check, outcome := range map[string]string{
			"B1": "not determined", "B2": "as expected", "B3": "not determined", "B4": "not determined", "B6": "as expected", "B8": "as expected",
		} {
			if check == "B4" && i == 0 {
				outcome = "as expected" // the holder of the VIPs
			}
			want[check+" "+m.Name] = outcome
		}
	}
	got := map[string]string{}
	for _, row := range regexp.MustCompile(`(?m)^\| (B\d): [^|]* \| (\S+) \| ([^|]*) \|$`).FindAllStringSubmatch(report, -1) {
		got[row[1]+" "+row[2]] = row[3]
	}
	if diff := cmp.Diff(want, got); diff != "" {
		a.t.Errorf("outcomes (-want +got):\n%s\n%s", diff, report)
	}
	for _, part := range []string{"- OpenShift: 4.20.1\n", fmt.Sprintf("- %s: ", a.ControlPlane[0].Name), ", Serving, holds the API VIP\n", "    HTTP/1.1 400 Bad Request\n"} {
		if !strings.Contains(report, part) {
			a.t.Errorf("no %q in\n%s", part, report)
		}
	}
}
