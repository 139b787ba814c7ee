// SPDX-License-Identifier: Apache-2.0

package socketowner

import (
	"path"
	"strings"
)

// info is what a cgroup's path tells of those in it.
type cgroupInfo struct {
	path      string
	unit      string // the innermost; empty when systemd does not manage the cgroup
	manager   string // the unit that runs a systemd of its own which has that unit
	pod       string // its uid
	container string // its id
}

// parseCgroupPath reads a path below the mount of the cgroups, as systemd
// (CONTROL_GROUP_INTERFACE), CRI-O and the kubelet name them:
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
		// systemd puts an underscore before what could be taken for a file of
		// the kernel's (cg_escape).
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

// podUID finds it in a cgroup's name. Systemd's slices are nested by hyphens,
// so the kubelet writes underscores instead of those of the uid.
func podUID(slice string) (uid string, found bool) {
	uid, found = strings.CutPrefix(slice, "pod")
	if !found {
		_, uid, found = strings.Cut(slice, "-pod")
	}
	return strings.ReplaceAll(uid, "_", "-"), found
}

// containerID finds it in crio-<id>.scope, cri-containerd-<id>.scope, and in
// that of CRI-O's monitor, crio-conmon-<id>.scope.
func containerID(unit string) string {
	scope, isScope := strings.CutSuffix(unit, ".scope")
	id := scope[strings.LastIndexByte(scope, '-')+1:]
	if !isScope || !isContainerID(id) {
		return ""
	}
	return id
}

// isContainerID tells whether it is 32 bytes in hexadecimal, as runtimes have
// them.
func isContainerID(s string) bool {
	return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == ""
}

func (p cgroupInfo) isKnown() bool { return p.path != "" }

// String is the place by itself: it says what kind of thing it is.
func (p cgroupInfo) String() string {
	if p.unit == "" {
		return p.name()
	}
	return "unit " + p.name()
}

// name is the place after "process 123 (otelcol) of".
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

// inspectCommand tells more of the place, or is empty.
func (p cgroupInfo) inspectCommand() string {
	const unique = 13 // as many of an id's digits as crictl prints
	switch {
	case p.container != "":
		return "crictl ps --id " + p.container[:unique]
	case p.unit == "init.scope":
		return "systemctl list-sockets" // systemd listens for a socket unit
	default:
		return ""
	}
}
