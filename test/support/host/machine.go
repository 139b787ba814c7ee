// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// rebootCode is systemd-nspawn's exit code for a requested reboot (src/nspawn/nspawn.c,
// EXIT_FORCE_RESTART).
const rebootCode = 133

// machine is a host that is on: one systemd-nspawn per boot.
type machine struct {
	host    *Host
	console *os.File
	off     chan struct{} // closed when the host is off
	err     error         // the error unless it was a clean power-off; valid after off is closed

	mu    sync.Mutex
	boots int
}

func (h *Host) switchOn() (*machine, error) {
	console, err := os.OpenFile(h.consolePath(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the console of %s: %w", h.Name, err)
	}
	m := &machine{host: h, console: console, off: make(chan struct{})}
	go m.run()
	return m, nil
}

func (h *Host) consolePath() string { return filepath.Join(h.dir, "console.log") }

// run boots until the host requests no further boot.
func (m *machine) run() {
	defer close(m.off)
	defer func() { _ = m.console.Close() }()
	for {
		m.mu.Lock()
		m.boots++
		group := m.group(m.boots)
		m.mu.Unlock()
		err := m.boot(group)
		cleared := removeCgroups(context.Background(), group)
		var exit *exec.ExitError
		if errors.As(err, &exit) && exit.ExitCode() == rebootCode && cleared == nil {
			continue
		}
		m.err = errors.Join(err, cleared)
		return
	}
}

// boot runs systemd-nspawn once. It needs an exclusive cgroup in each hierarchy and must
// start in it (--keep-unit).
func (m *machine) boot(group string) error {
	if err := makeCgroups(group); err != nil {
		return err
	}
	trees, err := findHierarchies()
	if err != nil {
		return err
	}
	var script strings.Builder
	for _, tree := range trees.all() {
		// 0 is the writing process (cgroups(7)).
		fmt.Fprintf(&script, "echo 0 >'%s' && ", filepath.Join(tree, group, "cgroup.procs"))
	}
	h := m.host
	// Unlike `ip netns exec`, nsenter keeps the mounts, which include the cgroups.
	if h.options.Namespace != "" {
		fmt.Fprintf(&script, "exec nsenter --net='%s' ", h.options.Namespace)
	} else {
		script.WriteString("exec ")
	}
	script.WriteString(`systemd-nspawn "$@"`)
	cmd := exec.Command("sh", "-c", script.String(), "sh", //nolint:noctx // ends with the host, and with the cell
		"--quiet", "--machine="+h.Name, "--directory="+h.Root, "--boot",
		"--register=no", "--keep-unit", "--network-bridge="+h.options.Bridge,
		"--console=pipe", "--resolv-conf=off", "--timezone=off", "--link-journal=no",
		"--kill-signal=SIGRTMIN+3", "--capability=all",
		"--system-call-filter=bpf", "--system-call-filter=@keyring",
		"--system-call-filter=landlock_create_ruleset", "--system-call-filter=landlock_restrict_self")
	cmd.Env = append(os.Environ(), "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1")
	cmd.Stdout, cmd.Stderr = m.console, m.console
	// Its own session, so that it does not take the terminal.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("systemd-nspawn of %s: %w", h.Name, err)
	}
	return nil
}

func (m *machine) group(boot int) string {
	return filepath.Join(m.host.cell.cgroup, m.host.Name+"-"+strconv.Itoa(boot))
}

// generation returns the number of boots since the host was switched on.
func (m *machine) generation() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.boots
}

// leader returns the ID in the cell of the host's first process.
func (m *machine) leader() (int, error) {
	trees, err := findHierarchies()
	if err != nil {
		return 0, err
	}
	path := filepath.Join(trees.unified, m.group(m.generation()), "payload/init.scope/cgroup.procs")
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, fmt.Errorf("find the first process of %s: %w", m.host.Name, err)
	}
	first, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(first)
	if err != nil {
		return 0, fmt.Errorf("find the first process of %s: %w", m.host.Name, err)
	}
	return pid, nil
}

// signal sends a signal to the host's first process.
func (m *machine) signal(s unix.Signal) error {
	pid, err := m.leader()
	if err != nil {
		return err
	}
	if err := unix.Kill(pid, s); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("signal %s: %w", m.host.Name, err)
	}
	return nil
}
