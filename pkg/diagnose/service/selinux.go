// SPDX-License-Identifier: Apache-2.0

package service

import (
	"bytes"
	"errors"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
)

const (
	enforceFile = "/sys/fs/selinux/enforce"
	auditLog    = "/var/log/audit/audit.log"
	maxAudit    = 1 << 20        // at the end of the file
	auditAge    = 24 * time.Hour // older records are irrelevant

	// removerPath is the unit that runs when the MachineConfig is deleted (pkg/host/install).
	removerPath = "/usr/local/lib/systemd/system/http01-proxyd-install.service"
)

// selinux is the SELinux state of a program, and of the unit that removes it.
type selinux struct {
	enforcing bool
	label     string // of the program; empty if unknown
	remover   string // label of that unit; empty if unknown
	audit     []byte // the end of the audit log; empty if unreadable
}

func readSELinux(path string) selinux {
	text, err := os.ReadFile(enforceFile)
	if err != nil || strings.TrimSpace(string(text)) != "1" {
		return selinux{}
	}
	s := selinux{enforcing: true, label: readLabel(path), remover: readLabel(removerPath)}
	s.audit, _ = readTail(auditLog, maxAudit)
	return s
}

func readLabel(path string) string {
	label := make([]byte, 512)
	n, err := unix.Getxattr(path, "security.selinux", label)
	if err != nil {
		return ""
	}
	return string(bytes.TrimRight(label[:n], "\x00"))
}

// readTail reads the last bytes of a file.
func readTail(path string, size int64) (text []byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.NewSectionReader(f, max(0, info.Size()-size), size))
}

func (s selinux) findings(path string, now time.Time) []findings.Finding {
	if !s.enforcing {
		return nil
	}
	var matches []findings.Finding
	if kind := labelType(s.label); kind != "" && !isExecutableType(kind) {
		matches = append(matches, findings.New(findings.SELinuxLabel, findings.Values{"path": path, "type": kind}))
	}
	if denial := s.lastDenial(serviceDenial, now); denial != "" && len(matches) == 0 {
		matches = append(matches, findings.New(findings.SELinuxDenies, findings.Values{"denial": denial}))
	}
	return append(matches, s.unitFindings(now)...)
}

// unitFindings are about files that systemd itself reads. They do not affect a running service.
func (s selinux) unitFindings(now time.Time) []findings.Finding {
	if !s.enforcing {
		return nil
	}
	detail := s.lastDenial(unitDenial, now)
	if kind := labelType(s.remover); kind != "" && !isUnitType(kind) {
		detail = removerPath + " has the type " + kind
	}
	if detail == "" {
		return nil
	}
	return []findings.Finding{findings.New(findings.SELinuxUnit, findings.Values{"detail": detail})}
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

// The ends of denials for this program, and for systemd about a file of this program.
const (
	serviceDenial = `comm="http01-proxyd.*`
	unitDenial    = `comm="systemd" .*http01-proxyd.*`
)

// lastDenial is the last denial with such an end, in one line.
func (s selinux) lastDenial(end string, now time.Time) string {
	line := regexp.MustCompile(`(?m)^type=AVC msg=audit\((\d+)\.\d+:\d+\): avc:  denied  (\{[^}]*\}) for .*` + end + `$`)
	all := line.FindAllSubmatch(s.audit, -1)
	if len(all) == 0 {
		return ""
	}
	last := all[len(all)-1]
	seconds, err := strconv.ParseInt(string(last[1]), 10, 64)
	if err != nil || now.Sub(time.Unix(seconds, 0)) > auditAge {
		return ""
	}
	_, what, _ := bytes.Cut(last[0], []byte("denied  "))
	return string(what)
}
