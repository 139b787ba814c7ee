// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"context"
	"fmt"

	"github.com/coreos/go-systemd/v22/dbus"
)

// Manager changes units over a bus, which only root can do, and reads their state.
type Manager struct{ bus *dbus.Conn }

// OpenManager connects over the system bus, or directly to the manager if there is no such bus.
// The connection ends with ctx.
func OpenManager(ctx context.Context) (*Manager, error) {
	bus, err := dbus.NewWithContext(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect to systemd: %w", err)
	}
	return &Manager{bus}, nil
}

// Close ends the connection.
func (m *Manager) Close() { m.bus.Close() }

// Unit returns the state of a unit. It reads all values at the same time.
func (m *Manager) Unit(ctx context.Context, name string) (Unit, error) {
	p, err := m.bus.GetAllPropertiesContext(ctx, name)
	if err != nil {
		return Unit{}, fmt.Errorf("query systemd for %s: %w", name, err)
	}
	return parseUnit(p), nil
}

// Reload makes the manager read all unit files again (systemctl daemon-reload).
func (m *Manager) Reload(ctx context.Context) error {
	if err := m.bus.ReloadContext(ctx); err != nil {
		return fmt.Errorf("reload the units of systemd: %w", err)
	}
	return nil
}

// Restart restarts a unit and returns the result of its job, such as done.
func (m *Manager) Restart(ctx context.Context, name string) (result string, err error) {
	result, err = await(ctx, func(results chan<- string) error {
		_, err := m.bus.RestartUnitContext(ctx, name, "replace", results)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("restart %s: %w", name, err)
	}
	return result, nil
}

// Stop stops a unit and returns when its job ended.
func (m *Manager) Stop(ctx context.Context, name string) error {
	_, err := await(ctx, func(results chan<- string) error {
		_, err := m.bus.StopUnitContext(ctx, name, "replace", results)
		return err
	})
	if err != nil {
		return fmt.Errorf("stop %s: %w", name, err)
	}
	return nil
}

// QueueStop stops a unit and does not wait.
func (m *Manager) QueueStop(ctx context.Context, name string) error {
	if _, err := m.bus.StopUnitContext(ctx, name, "replace", nil); err != nil {
		return fmt.Errorf("stop %s: %w", name, err)
	}
	return nil
}

// await queues a job and waits for its result.
func await(ctx context.Context, queue func(chan<- string) error) (string, error) {
	results := make(chan string, 1)
	if err := queue(results); err != nil {
		return "", err
	}
	select {
	case result := <-results:
		return result, nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}
