// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// environment returns the environment of a root shell on the host.
func environment() []string {
	return []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=/root", "USER=root", "LOGNAME=root", "LANG=C.UTF-8", "TERM=dumb",
		"SYSTEMD_PAGER=", "SYSTEMD_COLORS=0",
	}
}

// Run runs a command on the host as root and returns its standard output. The error
// includes its standard error and, as *exec.ExitError, its exit code.
func (h *Host) Run(ctx context.Context, name string, args ...string) (string, error) {
	return h.Input(ctx, "", name, args...)
}

// Input is Run with text on the command's standard input.
func (h *Host) Input(ctx context.Context, stdin, name string, args ...string) (string, error) {
	leader, err := h.leader()
	if err != nil {
		return "", err
	}
	enter := append([]string{"--target", strconv.Itoa(leader), "--all", "--", name}, args...)
	out, err := lab.Output(ctx, environment(), stdin, "nsenter", enter...)
	if err != nil {
		return out, fmt.Errorf("on %s: %w", h.Name, err)
	}
	return out, nil
}

// Listen opens a TCP listener on the host in this process. It must be closed before the
// host is switched off.
func (h *Host) Listen(ctx context.Context, address string) (net.Listener, error) {
	leader, err := h.leader()
	if err != nil {
		return nil, err
	}
	var listener net.Listener
	err = lab.InNamespace(fmt.Sprintf("/proc/%d/ns/net", leader), func() (err error) {
		listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", address)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", h.Name, err)
	}
	return listener, nil
}

// Holds reports whether an address is on one of the host's links. A host that is off holds
// none.
func (h *Host) Holds(ctx context.Context, a netip.Addr) (bool, error) {
	out, err := h.Run(ctx, "ip", "-o", "address", "show", "to", a.String())
	if errors.Is(err, errOff) {
		return false, nil
	}
	return strings.TrimSpace(out) != "", err
}

// Properties returns properties of a unit from `systemctl show`.
func (h *Host) Properties(ctx context.Context, unit string, names ...string) (map[string]string, error) {
	out, err := h.Run(ctx, "systemctl", "show", "--property="+strings.Join(names, ","), unit)
	if err != nil {
		return nil, err
	}
	properties := make(map[string]string, len(names))
	for line := range strings.Lines(out) {
		if key, value, found := strings.Cut(strings.TrimRight(line, "\n"), "="); found {
			properties[key] = value
		}
	}
	return properties, nil
}

// PID returns the ID in the cell of one of the host's processes. A signal to it takes
// effect at once, while a command on the host takes time to start.
func (h *Host) PID(inside string) (int, error) {
	leader, err := h.leader()
	if err != nil {
		return 0, err
	}
	namespace, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", leader))
	if err != nil {
		return 0, fmt.Errorf("find process %s of %s: %w", inside, h.Name, err)
	}
	files, err := filepath.Glob("/proc/[0-9]*/status")
	if err != nil {
		return 0, err
	}
	for _, file := range files {
		text, _ := os.ReadFile(file) // perhaps the process exited
		_, ids, _ := strings.Cut(string(text), "\nNSpid:")
		ids, _, _ = strings.Cut(ids, "\n")
		all := strings.Fields(ids)
		if len(all) == 0 || all[len(all)-1] != inside {
			continue
		}
		if of, _ := os.Readlink(filepath.Join(filepath.Dir(file), "ns/pid")); of == namespace {
			return strconv.Atoi(filepath.Base(filepath.Dir(file)))
		}
	}
	return 0, fmt.Errorf("%s has no process %s", h.Name, inside)
}
