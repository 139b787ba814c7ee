// SPDX-License-Identifier: Apache-2.0

package service

import (
	"bytes"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
)

const (
	enforceFile = "/sys/fs/selinux/enforce"

	// removerPath is the unit that runs when the MachineConfig is deleted (pkg/host/install).
	removerPath = "/usr/local/lib/systemd/system/http01-proxyd-install.service"
)

// selinux is the SELinux state of a program, and of the unit that removes it.
type selinux struct {
	enforcing bool
	label     string // of the program; empty if unknown
	remover   string // label of that unit; empty if unknown
}

func readSELinux(path string) selinux {
	text, err := os.ReadFile(enforceFile)
	if err != nil || strings.TrimSpace(string(text)) != "1" {
		return selinux{}
	}
	return selinux{enforcing: true, label: readLabel(path), remover: readLabel(removerPath)}
}

func readLabel(path string) string {
	label := make([]byte, 512)
	n, err := unix.Getxattr(path, "security.selinux", label)
	if err != nil {
		return ""
	}
	return string(bytes.TrimRight(label[:n], "\x00"))
}

// findings are about the program, and about files that systemd itself reads.
func (s selinux) findings(path string) []findings.Finding {
	matches := s.unitFindings()
	if kind := labelType(s.label); s.enforcing && kind != "" && !isExecutableType(kind) {
		f := findings.New(findings.SELinuxLabel, findings.Values{"path": path, "type": kind})
		return append([]findings.Finding{f}, matches...)
	}
	return matches
}

// unitFindings are about files that systemd itself reads. They do not affect a running service.
func (s selinux) unitFindings() []findings.Finding {
	kind := labelType(s.remover)
	if !s.enforcing || kind == "" || isUnitType(kind) {
		return nil
	}
	detail := removerPath + " has the type " + kind
	return []findings.Finding{findings.New(findings.SELinuxUnit, findings.Values{"detail": detail, "unit": removerPath})}
}

// labelType is the third field of user:role:type:level.
func labelType(label string) string {
	fields := strings.Split(label, ":")
	if len(fields) < 3 {
		return ""
	}
	return fields[2]
}

// isExecutableType reports the default type of programs and the types that policies
// define for programs of their own.
func isExecutableType(kind string) bool { return kind == "bin_t" || strings.HasSuffix(kind, "_exec_t") }

// isUnitType reports the types of units and of the directories of libraries, which systemd reads.
func isUnitType(kind string) bool { return kind == "lib_t" || strings.HasSuffix(kind, "_unit_file_t") }
