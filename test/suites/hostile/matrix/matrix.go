// SPDX-License-Identifier: Apache-2.0

package matrix

import (
	"fmt"
	"strings"
)

// Processes returns the kinds of child processes in the order of the columns.
func Processes() []string { return []string{"proxy", "exporter", "prober"} }

// Outcomes are the results of one act in one process: "yes", or the name of the error.
type Outcomes struct {
	Unit     string // with the sandbox of the unit, and without capabilities
	Landlock string // with Landlock too
	Filter   string // with the seccomp filter too: the running process
}

// Act is something that a child process tries. Its outcomes with Landlock and with the
// filter are one for all processes, or one for each of Processes, separated by spaces.
type Act struct {
	Name     string
	unit     string
	since    int    // the version of Landlock that restricts the act, or 0
	landlock string // from that version
	filter   string
}

// Outcomes returns what the process with this index must get from a kernel with this
// version of Landlock.
func (a Act) Outcomes(process, version int) Outcomes {
	o := Outcomes{Unit: a.unit, Landlock: of(a.landlock, process), Filter: of(a.filter, process)}
	if version < a.since {
		o.Landlock = a.unit
	}
	return o
}

func of(outcomes string, process int) string {
	fields := strings.Fields(outcomes)
	return fields[min(process, len(fields)-1)]
}

// Table returns the matrix in Markdown: one row for adjacent acts with the same outcomes.
func Table() string {
	var b strings.Builder
	b.WriteString("|acts|unit's sandbox|and Landlock|and seccomp|\n|---|---|---|---|\n")
	acts, names := Acts(), ""
	for i, a := range acts {
		names += a.Name
		if i+1 < len(acts) && a.cells() == acts[i+1].cells() {
			names += "<br>"
			continue
		}
		fmt.Fprintf(&b, "|%s|%s|\n", names, a.cells())
		names = ""
	}
	return b.String()
}

// cells describes the outcomes of an act in all processes.
func (a Act) cells() string {
	landlock := cell(a.landlock)
	if a.since > 1 {
		landlock += fmt.Sprintf(", from version %d", a.since)
	}
	return cell(a.unit) + "|" + landlock + "|" + cell(a.filter)
}

// cell describes the outcomes of all processes.
func cell(outcomes string) string {
	fields := strings.Fields(outcomes)
	if len(fields) == 1 {
		return mark(fields[0])
	}
	var parts []string
	for i, process := range Processes() {
		parts = append(parts, process+": "+mark(fields[i]))
	}
	return strings.Join(parts, ", ")
}

func mark(outcome string) string {
	if outcome == "yes" {
		return "**allowed**"
	}
	return "`" + outcome + "`"
}

// Acts returns the matrix on Linux 6.18 with version 7 of Landlock. The documentation of
// Landlock describes what later versions deny.
func Acts() []Act {
	return []Act{
		{"read the configuration", "yes", 1, "EACCES", "EPERM"},
		{"read keepalived.conf", "yes", 1, "EACCES", "EPERM"},
		{"read /etc/passwd", "yes", 1, "EACCES", "EPERM"},
		{"read the state directory", "yes", 1, "EACCES", "EPERM"},
		{"write the state directory", "yes", 1, "EACCES", "EPERM"},
		{"write the runtime directory", "yes", 1, "EACCES", "EPERM"},
		{"write /tmp", "yes", 1, "EACCES", "EPERM"},
		{"read its own /proc", "yes", 1, "EACCES", "EPERM"},
		{"run a program", "yes", 1, "EACCES", "EPERM"},
		{"read /etc/shadow", "EACCES", 0, "EACCES", "EPERM"},
		{"connect to systemd's private socket", "EACCES", 0, "EACCES", "EPERM"},
		{"connect to podman", "EACCES", 0, "EACCES", "EPERM"},
		{"read the controller's environment", "ENOENT", 0, "ENOENT", "EPERM"},
		{"open the controller's memory", "ENOENT", 0, "ENOENT", "EPERM"},
		{"see PID 1 in /proc", "ENOENT", 0, "ENOENT", "EPERM"},
		{"open the memory of PID 1", "ENOENT", 0, "ENOENT", "EPERM"},
		{"open a disk of the host", "ENOENT", 0, "ENOENT", "EPERM"},
		{"write /etc", "EROFS", 0, "EROFS", "EPERM"},
		{"connect to D-Bus", "yes", 9, "EACCES", "EPERM"},
		{"connect to systemd's notification socket", "yes", 9, "EACCES", "EPERM"},
		{"connect to the journal", "yes", 9, "EACCES", "EPERM"},
		{"connect to an abstract Unix socket", "yes", 6, "EPERM", "EPERM"},
		{"signal the controller", "yes", 6, "EPERM", "EPERM"},
		{"connect to TCP on the loopback address", "yes", 4, "yes EACCES yes", "yes EPERM yes"},
		{"send UDP to the loopback address", "yes", 10, "EACCES EACCES yes", "EPERM EPERM yes"}, //nolint:dupword // one word for each process
		{"bind a TCP port", "yes", 4, "EACCES", "EPERM"},
		{"read the controller's memory", "EPERM", 0, "EPERM", "EPERM"},
		{"trace the controller", "EPERM", 0, "EPERM", "EPERM"},
		{"pin the controller to its processors", "EPERM", 0, "EPERM", "EPERM"},
		{"signal PID 1", "EPERM", 0, "EPERM", "EPERM"},
		{"trace PID 1", "EPERM", 0, "EPERM", "EPERM"},
		{"open a netlink socket", "yes", 0, "yes", "EPERM"},
		{"read the controller's limits", "yes", 0, "yes", "EPERM"},
		{"map shared memory", "yes", 0, "yes", "EPERM"},
		{"map memory that grows", "yes", 0, "yes", "EPERM"},
		{"create an io_uring", "yes", 0, "yes", "EPERM"},
		{"map memory that is writable and executable", "EPERM", 0, "EPERM", "EPERM"},
		{"create a user namespace", "EPERM", 0, "EPERM", "EPERM"},
		{"load a BPF program", "EPERM", 0, "EPERM", "EPERM"},
		{"open a raw socket", "EPERM", 0, "EPERM", "EPERM"},
		{"open a packet socket", "EAFNOSUPPORT", 0, "EAFNOSUPPORT", "EPERM"},
	}
}
