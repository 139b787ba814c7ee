// SPDX-License-Identifier: Apache-2.0

// Package systemd owns what the service and its manager say to each other:
// readiness, reload, status, watchdog, and the journal.
//
// Started without systemd, every message goes nowhere and nothing else
// changes.
package systemd

import (
	"fmt"
	"strconv"

	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"
)

// Notifier sends sd_notify(3) messages. It holds nothing and may be used from
// any goroutine.
type Notifier struct{}

// Ready says that the service works, and after Reloading that the reload is
// over.
func (Notifier) Ready(status string) error {
	return send("READY=1\nSTATUS=" + status)
}

// Reloading says that a reload has begun. MONOTONIC_USEC is what
// Type=notify-reload asks for (systemd 253); older managers ignore it.
func (Notifier) Reloading() error {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return fmt.Errorf("read the monotonic clock: %w", err)
	}
	return send("RELOADING=1\nMONOTONIC_USEC=" + strconv.FormatInt(now.Nano()/1000, 10))
}

// HasStopJob says that the service is on its way out.
func (Notifier) Stopping(status string) error {
	return send("STOPPING=1\nSTATUS=" + status)
}

// ExecMainStatus sets the line that systemctl status shows.
func (Notifier) Status(status string) error {
	return send("STATUS=" + status)
}

func send(state string) error {
	if _, err := daemon.SdNotify(false, state); err != nil {
		return fmt.Errorf("notify systemd: %w", err)
	}
	return nil
}
