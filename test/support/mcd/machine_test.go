// SPDX-License-Identifier: Apache-2.0

package mcd_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/test/support/host"
	"github.com/http01-proxyd/http01-proxyd/test/support/mcd"
)

var _ mcd.Machine = (*host.Host)(nil)

// machine replaces a host and records the operations in order, which these tests are about.
// The tests on booted hosts have a real systemd.
type machine struct {
	files   map[string]string
	modes   map[string]fs.FileMode
	enabled map[string]bool
	fails   map[string]error // errors by command
	log     []string
}

func newMachine() *machine {
	return &machine{
		files: map[string]string{}, modes: map[string]fs.FileMode{},
		enabled: map[string]bool{}, fails: map[string]error{},
	}
}

func (m *machine) ReadFile(name string) (string, error) {
	content, there := m.files[name]
	if !there {
		return "", fmt.Errorf("read %s: %w", name, fs.ErrNotExist)
	}
	return content, nil
}

func (m *machine) WriteFile(name, content string, mode fs.FileMode) error {
	if err := m.fails["write "+name]; err != nil {
		return err
	}
	m.files[name], m.modes[name] = content, mode
	m.record("write", name)
	return nil
}

func (m *machine) RemoveFile(name string) error {
	if _, there := m.files[name]; there {
		delete(m.files, name)
		m.record("remove", name)
	}
	return nil
}

// record records an operation, except those on the daemon's own records.
func (m *machine) record(what, name string) {
	if !strings.HasPrefix(name, "/etc/machine-config-daemon/") {
		m.log = append(m.log, what+" "+name)
	}
}

// Run simulates the daemon's commands. Commands that only query are not recorded.
func (m *machine) Run(_ context.Context, name string, args ...string) (string, error) {
	command := strings.Join(append([]string{name}, args...), " ")
	switch {
	case name == "stat":
		return m.stat(args[len(args)-1])
	case name == "readlink":
		return m.files[args[0]] + "\n", nil
	case strings.HasPrefix(command, "systemctl is-enabled "):
		return m.isEnabled(args[1])
	case strings.HasPrefix(command, "systemctl list-unit-files"):
		return "crio.service enabled disabled\n", nil
	}
	m.log = append(m.log, command)
	if err := m.fails[command]; err != nil {
		return "", err
	}
	switch {
	case name == "ln":
		m.files[args[2]] = args[1]
	case args[0] == "enable", args[0] == "disable":
		for _, u := range args[1:] {
			m.enabled[u] = args[0] == "enable"
		}
	case args[0] == "preset":
		m.enabled[args[1]] = false // RHCOS: disable *
	}
	return "done", nil
}

func (m *machine) stat(name string) (string, error) {
	mode, there := m.modes[name]
	if _, content := m.files[name]; !there || !content {
		return "", fmt.Errorf("stat %s: no such file", name)
	}
	const regular = 0o100000
	return fmt.Sprintf("%x\n", regular|uint32(mode)), nil
}

func (m *machine) isEnabled(unit string) (string, error) {
	if m.enabled[unit] {
		return "enabled\n", nil
	}
	return "disabled\n", errors.New("exit status 1")
}

// takeLog returns the recorded operations and starts a new record.
func (m *machine) takeLog() []string {
	log := m.log
	m.log = nil
	return slices.Clone(log)
}
