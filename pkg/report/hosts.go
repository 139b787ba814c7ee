// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"strings"
)

// HostsSource is why challenges for some names, or for any name, are accepted.
type HostsSource string

// The sources of the accepted names.
const (
	HostsConfigured HostsSource = "configuration" // hosts
	HostsAPIName    HostsSource = "api-name"      // the names of the API on this host
	HostsAny        HostsSource = "any"           // hosts is ["*"]
	HostsUnknown    HostsSource = "unknown"       // the names of the API are not known: any name
)

// AcceptedHosts is for which names and addresses challenges are accepted, and why.
type AcceptedHosts struct {
	Names []string `json:"names"` // empty: any
	// Source is configuration, api-name, any or unknown; empty while the service is disabled.
	Source HostsSource `json:"source"`
	Path   string      `json:"path,omitempty"` // of the file, or of the directory, with the names
	Note   string      `json:"note,omitempty"` // why the names of the API are not known, and the fix
}

// maxHostsNamed bounds the names in a description.
const maxHostsNamed = 3

// Limited reports whether challenges are accepted for some names only.
func (h AcceptedHosts) Limited() bool { return len(h.Names) > 0 }

// String describes the names and their source.
func (h AcceptedHosts) String() string {
	names := strings.Join(h.Names[:min(len(h.Names), maxHostsNamed)], ", ")
	if more := len(h.Names) - maxHostsNamed; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	switch h.Source {
	case HostsAny:
		return fmt.Sprintf(`any name (hosts: ["*"] in %s)`, h.Path)
	case HostsUnknown:
		return "any name, because " + h.Note
	case HostsAPIName:
		noun := "name"
		if len(h.Names) > 1 {
			noun = "names"
		}
		return fmt.Sprintf("%s only (the API's %s in %s)", names, noun, h.Path)
	default:
		return fmt.Sprintf("%s only (hosts in %s)", names, h.Path)
	}
}
