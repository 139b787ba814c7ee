// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// sigPowerOff is SIGRTMIN+4, on which systemd powers off (systemd(1)), with glibc's
// SIGRTMIN of 34.
const sigPowerOff = unix.Signal(34 + 4)

// errOff means that the host is not switched on.
var errOff = errors.New("the host is off")

func (h *Host) on() (*machine, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.machine == nil {
		return nil, fmt.Errorf("%s: %w", h.Name, errOff)
	}
	return h.machine, nil
}

// leader returns the ID in the cell of the first process of a running host.
func (h *Host) leader() (int, error) {
	m, err := h.on()
	if err != nil {
		return 0, err
	}
	return m.leader()
}

// On reports whether the host is switched on.
func (h *Host) On() bool {
	_, err := h.on()
	return err == nil
}

func (h *Host) set(m *machine) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.machine = m
}

// Boot switches the host on and waits until systemd reports that it is running without a
// failed unit.
func (h *Host) Boot(ctx context.Context) error {
	m, err := h.start()
	if err != nil {
		return err
	}
	return h.awaitRunning(ctx, m, 1)
}

// BootTo switches the host on and waits until a unit is active, whatever else is starting or
// failed. Boot waits until the job queue is empty for the first time (systemctl(1),
// is-system-running), and therefore for hanging units.
func (h *Host) BootTo(ctx context.Context, unit string) error {
	m, err := h.start()
	if err != nil {
		return err
	}
	return h.await(ctx, m, 1, func(ctx context.Context) (bool, error) {
		out, err := h.Run(ctx, "systemctl", "is-active", unit)
		if err != nil {
			return false, fmt.Errorf("%s is %q: %w", unit, strings.TrimSpace(out), err)
		}
		return true, nil
	})
}

func (h *Host) start() (*machine, error) {
	if h.On() {
		return nil, fmt.Errorf("boot %s: it is on already", h.Name)
	}
	m, err := h.switchOn()
	if err == nil {
		h.set(m)
	}
	return m, err
}

// Reboot reboots the host with systemd and waits like Boot.
func (h *Host) Reboot(ctx context.Context) error {
	m, err := h.on()
	if err != nil {
		return err
	}
	next := m.generation() + 1
	_, rebootErr := h.Run(ctx, "systemctl", "--no-block", "reboot")
	// The answer can be lost during the shutdown.
	if err := h.awaitRunning(ctx, m, next); err != nil {
		return errors.Join(err, rebootErr)
	}
	return nil
}

func (h *Host) awaitRunning(ctx context.Context, m *machine, boot int) error {
	return h.await(ctx, m, boot, func(ctx context.Context) (bool, error) {
		out, err := h.Run(ctx, "systemctl", "is-system-running")
		switch state := strings.TrimSpace(out); state {
		case "running":
			return true, nil
		case "degraded":
			failed, err := h.Run(ctx, "systemctl", "--failed", "--no-legend", "--plain")
			return true, errors.Join(fmt.Errorf("units failed at the boot of %s: %s", h.Name, strings.TrimSpace(failed)), err)
		default:
			return false, fmt.Errorf("state %q: %w", state, err)
		}
	})
}

// await waits until check reports the end of the boot, with success or a permanent error.
func (h *Host) await(ctx context.Context, m *machine, boot int, check func(context.Context) (ended bool,
	err error),
) error {
	var broken error
	err := lab.Eventually(ctx, fmt.Sprintf("boot %d of %s", boot, h.Name), func(ctx context.Context) error {
		select {
		case <-m.off:
			broken = fmt.Errorf("%s powered off: %w", h.Name, errors.Join(m.err, errOff))
			return nil
		default:
		}
		if got := m.generation(); got < boot {
			return fmt.Errorf("still in boot %d", got)
		}
		ended, err := check(ctx)
		if ended {
			broken = err
			return nil
		}
		return err
	})
	if err := errors.Join(err, broken); err != nil {
		return fmt.Errorf("%w\n%s", err, h.Diagnosis(context.WithoutCancel(ctx)))
	}
	return nil
}

// PowerOff powers the host off with systemd and waits for it.
func (h *Host) PowerOff(ctx context.Context) error {
	m, err := h.on()
	if err != nil {
		return err
	}
	if err := m.signal(sigPowerOff); err != nil {
		return err
	}
	if err := h.awaitOff(ctx, m); err != nil {
		return err
	}
	if m.err != nil {
		return fmt.Errorf("power %s off: %w", h.Name, m.err)
	}
	return nil
}

// Kill simulates a power loss: the link goes down and every process ends at once. A host
// that is off stays off.
func (h *Host) Kill(ctx context.Context) error {
	m, err := h.on()
	if errors.Is(err, errOff) {
		return nil
	}
	if err != nil {
		return err
	}
	// The link may not exist yet, or no longer.
	_ = h.outside(func() error {
		_, err := run(ctx, "ip", "link", "set", h.link(), "down")
		return err
	})
	err = lab.Eventually(ctx, h.Name+" killed", func(context.Context) error {
		select {
		case <-m.off:
			return nil
		default:
		}
		if err := m.signal(unix.SIGKILL); err != nil {
			return err
		}
		return errors.New("still on")
	})
	return errors.Join(err, h.awaitOff(ctx, m))
}

// awaitOff waits until only the host's disk remains.
func (h *Host) awaitOff(ctx context.Context, m *machine) error {
	err := lab.Eventually(ctx, h.Name+" off", func(context.Context) error {
		select {
		case <-m.off:
		default:
			return errors.New("systemd-nspawn still runs")
		}
		// The kernel removes the link of an ended host with a delay.
		return h.outside(func() error {
			if _, err := os.Stat(filepath.Join("/proc/sys/net/ipv4/conf", h.link())); err == nil {
				return fmt.Errorf("link %s is still there", h.link())
			}
			return nil
		})
	})
	if err == nil {
		h.set(nil)
	}
	return err
}

// outside calls f in the network namespace of the host's bridge.
func (h *Host) outside(f func() error) error {
	if h.options.Namespace == "" {
		return f()
	}
	return lab.InNamespace(h.options.Namespace, f)
}

// link returns the bridge side of the host's link, as systemd-nspawn names it.
func (h *Host) link() string { return "vb-" + h.Name }
