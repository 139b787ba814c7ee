// SPDX-License-Identifier: Apache-2.0

package socketowner

import (
	"path"
	"strings"
)

type cgroupInfo struct {
	path      string
	unit      string // the innermost unit; empty if systemd does not manage the cgroup
	manager   string // the unit with a systemd instance that runs unit
	pod       string // UID of the pod
	container string // ID of the container
}

// parseCgroupPath parses a path below the cgroup mount point, with the names of systemd
// (CONTROL_GROUP_INTERFACE), CRI-O and the kubelet:
//
//	/system.slice/otelcol.service
//	/user.slice/user-1000.slice/user@1000.service/app.slice/otelcol.service
//	/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod<uid>.slice/crio-<id>.scope
//	/kubepods/burstable/pod<uid>/<id>
func parseCgroupPath(cgroup string) cgroupInfo {
	p := cgroupInfo{path: path.Clean("/" + replaceUnprintable(cgroup))}
	kubepods := false
	for name := range strings.SplitSeq(strings.TrimPrefix(p.path, "/"), "/") {
		slice, isSlice := strings.CutSuffix(name, ".slice")
		kubepods = kubepods || strings.HasPrefix(slice, "kubepods")
		if kubepods {
			if uid, found := podUID(slice); found {
				p.pod = uid
			} else if isContainerID(name) {
				p.container = name
			}
		}
		if isSlice || !isUnitName(name) {
			continue
		}
		// systemd adds an underscore before a name that could conflict with a file of the
		// kernel (cg_escape).
		p.manager, p.unit = p.unit, strings.TrimPrefix(name, "_")
		p.container = containerID(p.unit)
	}
	return p
}

func isUnitName(name string) bool {
	switch path.Ext(name) {
	case ".service", ".scope", ".socket", ".mount", ".swap":
		return true
	default:
		return false
	}
}

// podUID extracts the pod's UID from a cgroup name. Hyphens nest the slices of systemd, so
// the kubelet replaces those of the UID with underscores.
func podUID(slice string) (uid string, found bool) {
	uid, found = strings.CutPrefix(slice, "pod")
	if !found {
		_, uid, found = strings.Cut(slice, "-pod")
	}
	return strings.ReplaceAll(uid, "_", "-"), found
}

// containerID extracts the container ID from crio-<id>.scope, cri-containerd-<id>.scope and
// crio-conmon-<id>.scope (CRI-O's monitor).
func containerID(unit string) string {
	scope, isScope := strings.CutSuffix(unit, ".scope")
	id := scope[strings.LastIndexByte(scope, '-')+1:]
	if !isScope || !isContainerID(id) {
		return ""
	}
	return id
}

// isContainerID reports whether s has the form of a runtime's container ID: 32 bytes in
// hexadecimal.
func isContainerID(s string) bool {
	return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == ""
}

func (p cgroupInfo) isKnown() bool { return p.path != "" }

// String returns the name with its type.
func (p cgroupInfo) String() string {
	if p.unit == "" {
		return p.name()
	}
	return "unit " + p.name()
}

// name returns the name as it follows "process 123 (otelcol) of".
func (p cgroupInfo) name() string {
	name := p.unit
	if name == "" {
		name = "cgroup " + p.path
	}
	if p.manager != "" {
		name += " in " + p.manager
	}
	if p.pod != "" {
		name += ", pod " + p.pod
	}
	return name
}

// inspectCommand returns a command that shows more details, or "".
func (p cgroupInfo) inspectCommand() string {
	const unique = 13 // number of ID digits that crictl prints
	switch {
	case p.container != "":
		return "crictl ps --id " + p.container[:unique]
	case p.unit == "init.scope":
		return "systemctl list-sockets" // systemd listens on behalf of a socket unit
	default:
		return ""
	}
}
