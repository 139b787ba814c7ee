// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"fmt"
	"strconv"

	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"
)

// Notifier sends sd_notify(3) messages. It has no state and is safe for concurrent use.
type Notifier struct{}

// Ready notifies that the service is ready. After Reloading, it notifies that the reload is
// complete.
func (Notifier) Ready(status string) error {
	return send("READY=1\nSTATUS=" + status)
}

// Reloading notifies that a reload has started. Type=notify-reload requires MONOTONIC_USEC
// (systemd 253). Older managers ignore it.
func (Notifier) Reloading() error {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return fmt.Errorf("read the monotonic clock: %w", err)
	}
	return send("RELOADING=1\nMONOTONIC_USEC=" + strconv.FormatInt(now.Nano()/1000, 10))
}

// Stopping notifies that the service is stopping.
func (Notifier) Stopping(status string) error {
	return send("STOPPING=1\nSTATUS=" + status)
}

// Status sets the status line of systemctl status.
func (Notifier) Status(status string) error {
	return send("STATUS=" + status)
}

func send(state string) error {
	if _, err := daemon.SdNotify(false, state); err != nil {
		return fmt.Errorf("notify systemd: %w", err)
	}
	return nil
}
