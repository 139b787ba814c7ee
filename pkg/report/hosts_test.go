// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"testing"

	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// TestDescribeAcceptedHosts: names and source are in one line, whatever the number of names.
func TestDescribeAcceptedHosts(t *testing.T) {
	t.Parallel()
	for want, h := range map[string]report.AcceptedHosts{
		"api.a only (the API's name in /etc/kubernetes/apiserver-url.env)": {
			Names: []string{"api.a"}, Source: report.HostsAPIName, Path: "/etc/kubernetes/apiserver-url.env",
		},
		"api.a, api.b only (the API's names in /etc/microshift)": {
			Names: []string{"api.a", "api.b"}, Source: report.HostsAPIName, Path: "/etc/microshift",
		},
		"a, b, c and 2 more only (hosts in /c.yaml)": {
			Names: []string{"a", "b", "c", "d", "e"}, Source: report.HostsConfigured, Path: "/c.yaml",
		},
		`any name (hosts: ["*"] in /c.yaml)`: {Source: report.HostsAny, Path: "/c.yaml"},
		"any name, because the API's name is not known: no such file: set hosts in /c.yaml": {
			Source: report.HostsUnknown, Note: "the API's name is not known: no such file: set hosts in /c.yaml",
		},
	} {
		if got := h.String(); got != want || h.Limited() != (len(h.Names) > 0) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
