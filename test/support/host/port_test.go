// SPDX-License-Identifier: Apache-2.0

package host_test

import (
	"context"
	"errors"
	"strings"
	"testing"
)

// TestPortInUse holds that the service names the process on its port from within the
// sandbox, where other processes are invisible.
func TestPortInUse(t *testing.T) {
	s := newService(t, true)
	t.Cleanup(func() { _, _ = s.node.Run(context.Background(), "systemctl", "stop", "squatter.service") })
	s.run("systemd-run", "--unit=squatter", "systemd-socket-activate", "--listen=8888", "cat")
	s.until("another process on port 8888", func(ctx context.Context) error {
		listening, err := s.node.Run(ctx, "ss", "-Hltn", "sport = :8888")
		if err == nil && strings.TrimSpace(listening) == "" {
			err = errors.New("nothing listens")
		}
		return err
	})
	s.systemctl("start", unit)
	line := s.awaitStatus("PortInUse: ")
	want := "port 8888: it is in use by unit squatter.service (see: ss -lntp 'sport = :8888'): stop that, or "
	if !strings.Contains(line, want) {
		t.Errorf("status line %q lacks %q", line, want)
	}
	if s.hasTable() {
		t.Error("a table redirects to the port of another process")
	}
	s.systemctl("stop", "squatter.service")
	s.awaitStatus("Serving: ")
	s.challenge()
}
