// SPDX-License-Identifier: Apache-2.0

package apiname_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/apiname"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/microshift"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// TestAccept: the configuration decides which names are accepted, or else the files that have
// the API's name do. Without a complete list, any name is accepted.
func TestAccept(t *testing.T) {
	t.Parallel()
	absent := errors.New("cannot read the name of the API: no such file")
	openShift := apiname.Sources{Path: "/k/url.env", Name: "api.ocp.example.com", MicroShiftDir: "/ms"}
	microShift := func(c microshift.Config) apiname.Sources {
		return apiname.Sources{
			Path: "/k/url.env", Err: absent, MicroShiftDir: "/ms",
			MicroShift: microshift.Snapshot{Present: true, Known: true, Config: c},
		}
	}
	named := microshift.Config{BaseDomain: "example.com", SubjectAltNames: []string{"api.edge.test"}}
	broken := microShift(named)
	broken.MicroShift.Err = errors.New("broken")
	neverRead := microShift(named)
	neverRead.MicroShift.Known, neverRead.MicroShift.Err = false, errors.New("broken")
	removed := microShift(named)
	removed.MicroShift.Present = false
	both := microShift(named)
	both.Name = "api.ocp.example.com"
	accepted := func(path string, names ...string) report.AcceptedHosts {
		return report.AcceptedHosts{Names: names, Source: report.HostsAPIName, Path: path}
	}
	unknown := func(reason string) report.AcceptedHosts {
		return report.AcceptedHosts{
			Source: report.HostsUnknown,
			Note:   "the API's name is not known: " + reason + ": set hosts in /c.yaml (on OpenShift by a MachineConfig)",
		}
	}
	for name, tt := range map[string]struct {
		sources apiname.Sources
		config  string
		want    report.AcceptedHosts
	}{
		"OpenShift":              {openShift, "", accepted("/k/url.env", "api.ocp.example.com")},
		"an empty list":          {openShift, "hosts: []", accepted("/k/url.env", "api.ocp.example.com")},
		"MicroShift":             {microShift(named), "", accepted("/ms", "api.edge.test")},
		"MicroShift, last good":  {broken, "", accepted("/ms", "api.edge.test")},
		"MicroShift, never read": {neverRead, "", unknown("broken")},
		"MicroShift, removed":    {removed, "", unknown(absent.Error())},
		"both":                   {both, "", accepted("/k/url.env", "api.ocp.example.com")},
		"neither":                {apiname.Sources{Err: absent}, "", unknown(absent.Error())},
		"configured": {openShift, "hosts: [B.example, a.example]", report.AcceptedHosts{
			Names: []string{"b.example", "a.example"}, Source: report.HostsConfigured, Path: "/c.yaml",
		}},
		"any": {openShift, "hosts: ['*']", report.AcceptedHosts{Source: report.HostsAny, Path: "/c.yaml"}},
	} {
		c, err := config.Parse("c.yaml", []byte(tt.config))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want, tt.sources.Accept(c, "/c.yaml")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
