// SPDX-License-Identifier: Apache-2.0

package apiname

import (
	"fmt"

	"github.com/http01-proxyd/http01-proxyd/pkg/config"
	"github.com/http01-proxyd/http01-proxyd/pkg/host/microshift"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// Sources are the files of this host that contain the API's name: the environment file of
// OpenShift, and MicroShift's configuration.
type Sources struct {
	Path string // of the environment file
	Name string // in it; empty: unknown
	Err  error  // why it is unknown

	MicroShiftDir string
	MicroShift    microshift.Snapshot
}

// Names returns the known names of the API, and the file or the directory that contains them. The
// reason for unknown names is err.
func (s Sources) Names() (names []string, path string, err error) {
	switch {
	case s.Name != "":
		return []string{s.Name}, s.Path, nil
	case !s.MicroShift.Present:
		return nil, "", s.Err
	case !s.MicroShift.Known:
		return nil, "", s.MicroShift.Err
	}
	names, err = s.MicroShift.Config.APINames()
	return names, s.MicroShiftDir, err
}

// Accept decides for which names challenges are accepted: the names of the configuration, whose
// path is configPath, or else the names of the API. Unless all names of the API are known,
// every name is accepted, and clients reach each route through the VIP.
func (s Sources) Accept(c config.Config, configPath string) report.AcceptedHosts {
	names, path, err := s.Names()
	switch {
	case len(c.Hosts) > 0:
		return report.AcceptedHosts{Names: c.Hosts, Source: report.HostsConfigured, Path: configPath}
	case c.AnyHost:
		return report.AcceptedHosts{Source: report.HostsAny, Path: configPath}
	case err != nil || len(names) == 0:
		note := fmt.Sprintf("the API's name is not known: %v: set hosts in %s (on OpenShift by a MachineConfig)",
			err, configPath)
		return report.AcceptedHosts{Source: report.HostsUnknown, Note: note}
	default:
		return report.AcceptedHosts{Names: names, Source: report.HostsAPIName, Path: path}
	}
}
