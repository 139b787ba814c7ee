// SPDX-License-Identifier: Apache-2.0

package disruption

import (
	"cmp"
	"path"
	"slices"
	"strings"
)

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
	Type    string  `json:"type"`
	Restart Service `json:"restart"` // of the type Restart
	Reload  Service `json:"reload"`  // of the type Reload
}

// Service is the unit of an action.
type Service struct {
	Name string `json:"serviceName"`
}

// Service returns the unit of the action, if the action names one.
func (a Action) Service() string { return cmp.Or(a.Restart.Name, a.Reload.Name) }

// Entry lists the actions for a change of a file or unit.
type Entry struct {
	Path    string   `json:"path"` // of a file or a parent directory
	Name    string   `json:"name"` // of a unit
	Actions []Action `json:"actions"`
}

// Key returns the path or the name.
func (e Entry) Key() string { return cmp.Or(e.Path, e.Name) }

// Policy is a set of entries, in the form of the API. It is immutable.
type Policy struct {
	Files []Entry `json:"files"`
	Units []Entry `json:"units"`
}

// journalCatalog explains the journal entries to readers. The service does not need it.
const journalCatalog = "/usr/local/lib/systemd/catalog/http01-proxyd.catalog"

// sosExtras lists the commands that "sos report" runs.
const sosExtras = "/etc/sos/extras.d/http01-proxyd"

// InstallerPolicy is the policy for hosts with the installer. A change of either
// service restarts the installer: it decides whether the service must be restarted.
// When the MachineConfig is deleted, a unit of the same name remains, which removes the
// service, so that the action succeeds.
func InstallerPolicy() Policy {
	none := []Action{{Type: None}}
	install := []Action{{Type: DaemonReload}, {Type: Restart, Restart: Service{"http01-proxyd-install.service"}}}
	return Policy{
		Files: []Entry{
			{Path: "/etc/http01-proxyd", Actions: none}, // the service watches the files
			{Path: "/usr/local/bin/http01-proxyd-install", Actions: none},
			{Path: journalCatalog, Actions: none}, // it changes with the image, and the installer compiles it
			{Path: sosExtras, Actions: none},
		},
		Units: []Entry{
			{Name: "http01-proxyd.service", Actions: install},
			{Name: "http01-proxyd-table.service", Actions: []Action{{Type: DaemonReload}}},
			{Name: "http01-proxyd-install.service", Actions: install},
			{Name: "http01-proxyd-install.timer", Actions: []Action{{Type: DaemonReload}}},
		},
	}
}

// LayeredPolicy is the policy for hosts whose operating system image contains the
// binary. A change of the unit comes with the reboot that a new image requires.
func LayeredPolicy() Policy {
	none := []Action{{Type: None}}
	return Policy{
		Files: []Entry{
			{Path: "/etc/http01-proxyd", Actions: none},
			{Path: journalCatalog, Actions: none}, // compiled at the next boot
			{Path: sosExtras, Actions: none},
		},
	}
}

// Entry returns the entry that applies to a file, by its path, or to a unit, by its name. For a
// file, the entry applies whose path is the longest among the file's path and its parent
// directories; of several, the first (the machine-config-operator's
// pkg/controller/common/helpers.go, FindClosestFilePolicyPathMatch and IsSubdirectory).
func (p Policy) Entry(key string) (found Entry, ok bool) {
	if !strings.HasPrefix(key, "/") {
		i := slices.IndexFunc(p.Units, func(e Entry) bool { return e.Name == key })
		if i < 0 {
			return Entry{}, false
		}
		return p.Units[i], true
	}
	for _, e := range p.Files {
		if key != e.Path && !strings.HasPrefix(path.Clean(key), path.Clean(e.Path)+"/") {
			continue
		}
		if len(e.Path) > len(found.Path) {
			found = e
		}
	}
	return found, found.Path != ""
}

// Uncovered returns the files and units without an entry in the policy: a change of
// them reboots a host.
func (p Policy) Uncovered(keys []string) (all []string) {
	for _, key := range keys {
		if _, found := p.Entry(key); !found {
			all = append(all, key)
		}
	}
	return all
}

// Reboots reports whether the actions drain or reboot a host.
func (e Entry) Reboots() bool {
	return slices.ContainsFunc(e.Actions, func(a Action) bool { return a.Type == Reboot || a.Type == Drain })
}
