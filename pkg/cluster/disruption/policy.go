// SPDX-License-Identifier: Apache-2.0

package disruption

import (
	"path"
	"slices"
	"strings"
)

// FieldManager owns the entries under server-side apply. Under the default name
// "kubectl" they would belong together with everything that the administrator has
// applied that way, and our apply would remove those entries.
const FieldManager = "http01-proxyd"

// Action types of the API (operator.openshift.io/v1, NodeDisruptionPolicySpecAction).
const (
	None         = "None"
	DaemonReload = "DaemonReload"
	Restart      = "Restart"
	Reload       = "Reload"
	Drain        = "Drain"
	Reboot       = "Reboot"
)

// Action is one step of the machine-config-daemon.
type Action struct {
	Type    string
	Service string // for Restart and Reload
}

// Entry lists the actions for a change of a file or unit.
type Entry struct {
	Key     string // the path of a file or a parent directory, or the name of a unit
	Actions []Action
}

// Policy is a set of entries. It is immutable.
type Policy struct {
	Files, Units []Entry
}

// journalCatalog explains the journal entries to readers. The service does not need it.
const journalCatalog = "/usr/local/lib/systemd/catalog/http01-proxyd.catalog"

// sosExtras has the commands that "sos report" runs.
const sosExtras = "/etc/sos/extras.d/http01-proxyd"

// InstallerPolicy is the policy for hosts with the installer. A change of either
// service restarts the installer: it decides whether the service must be restarted.
// When the MachineConfig is deleted, a unit of the same name remains, which removes the
// service, so that the action succeeds.
func InstallerPolicy() Policy {
	install := []Action{{Type: DaemonReload}, {Type: Restart, Service: "http01-proxyd-install.service"}}
	return Policy{
		Files: []Entry{
			{"/etc/http01-proxyd", []Action{{Type: None}}}, // the service watches the files
			{"/usr/local/bin/http01-proxyd-install", []Action{{Type: None}}},
			{journalCatalog, []Action{{Type: None}}}, // it changes with the image, and the installer compiles it
			{sosExtras, []Action{{Type: None}}},
		},
		Units: []Entry{
			{"http01-proxyd.service", install},
			{"http01-proxyd-table.service", []Action{{Type: DaemonReload}}},
			{"http01-proxyd-install.service", install},
			{"http01-proxyd-install.timer", []Action{{Type: DaemonReload}}},
		},
	}
}

// LayeredPolicy is the policy for hosts whose operating system image contains the
// binary. A change of the unit comes with the reboot that a new image requires.
func LayeredPolicy() Policy {
	return Policy{
		Files: []Entry{
			{"/etc/http01-proxyd", []Action{{Type: None}}},
			{journalCatalog, []Action{{Type: None}}}, // compiled at the next boot
			{sosExtras, []Action{{Type: None}}},
		},
	}
}

// File returns the entry that applies to a file. The longest key applies that is the
// path of the file or of a parent directory, and the first of several (the
// machine-config-operator's pkg/controller/common/helpers.go,
// FindClosestFilePolicyPathMatch and IsSubdirectory).
func (p Policy) File(file string) (Entry, bool) {
	var found Entry
	for _, e := range p.Files {
		if file != e.Key && !strings.HasPrefix(path.Clean(file), path.Clean(e.Key)+"/") {
			continue
		}
		if len(e.Key) > len(found.Key) {
			found = e
		}
	}
	return found, found.Key != ""
}

// Unit returns the entry that applies to a unit.
func (p Policy) Unit(name string) (Entry, bool) {
	i := slices.IndexFunc(p.Units, func(e Entry) bool { return e.Key == name })
	if i < 0 {
		return Entry{}, false
	}
	return p.Units[i], true
}

// Uncovered returns the files and units without an entry in the policy: a change of
// them reboots a host.
func (p Policy) Uncovered(paths, units []string) []string {
	var out []string
	for _, file := range paths {
		if _, found := p.File(file); !found {
			out = append(out, file)
		}
	}
	for _, unit := range units {
		if _, found := p.Unit(unit); !found {
			out = append(out, unit)
		}
	}
	return out
}

// Reboots reports whether the actions drain or reboot a host.
func (e Entry) Reboots() bool {
	return slices.ContainsFunc(e.Actions, func(a Action) bool { return a.Type == Reboot || a.Type == Drain })
}
