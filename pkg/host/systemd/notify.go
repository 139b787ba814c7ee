// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/internal/heartbeat"
)

// notifyTimeout bounds the wait for a manager whose queue of messages is full.
const notifyTimeout = 2 * time.Second

// Notifier sends sd_notify(3) messages. It is stateless and safe for concurrent use. Each
// message waits for a manager that does not read for notifyTimeout at most, Reloading not at
// all.
type Notifier struct{}

// Ready notifies that the service is ready. After Reloading, it notifies that the reload is
// complete.
func (Notifier) Ready(status string) error {
	return send("READY=1\nSTATUS="+status, 0)
}

// Reloading notifies that a reload started. Type=notify-reload requires MONOTONIC_USEC
// (systemd 253). Older managers ignore it. It never waits.
func (Notifier) Reloading() error {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return fmt.Errorf("read the monotonic clock: %w", err)
	}
	return send("RELOADING=1\nMONOTONIC_USEC="+strconv.FormatInt(now.Nano()/1000, 10), unix.MSG_DONTWAIT)
}

// Stopping notifies that the service is stopping.
func (Notifier) Stopping(status string) error {
	return send("STOPPING=1\nSTATUS="+status, 0)
}

// Status sets the status line of systemctl status.
func (Notifier) Status(status string) error {
	return send("STATUS="+status, 0)
}

// StatusRead is Status, and returns when the manager read the line. The manager drops a
// message if the process that sent it ended.
func (Notifier) StatusRead(status string) error {
	socket := os.Getenv("NOTIFY_SOCKET")
	if socket == "" {
		return nil
	}
	if err := (&DescriptorStore{socket, barrierTimeout}).sendAndWait("STATUS="+status, -1); err != nil {
		return fmt.Errorf("notify systemd: %w", err)
	}
	return nil
}

// send sends a message, if there is a manager. The daemon package of go-systemd waits without
// a bound for a manager that does not read.
func send(state string, flags int) error {
	socket := os.Getenv("NOTIFY_SOCKET")
	if socket == "" {
		return nil
	}
	if err := sendMessage(socket, state, -1, notifyTimeout, flags); err != nil {
		return fmt.Errorf("notify systemd: %w", err)
	}
	return nil
}

// Watchdog sends heartbeats to systemd's watchdog while every source reports. If one hangs, systemd ends
// the process after WatchdogSec. Sources must report at least every quarter of WatchdogSec.
type Watchdog = heartbeat.Monitor

// messagesPerInterval limits the heartbeats in one WatchdogSec.
const messagesPerInterval = 8

// NewWatchdog reads WATCHDOG_USEC and WATCHDOG_PID. Without them it sends nothing. failed
// receives each error of sending, unless it equals the error of the last heartbeat.
func NewWatchdog(failed func(error)) (*Watchdog, error) {
	interval, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		return nil, fmt.Errorf("read systemd's watchdog setting: %w", err)
	}
	if interval == 0 {
		return heartbeat.NewMonitor(0, func() {}), nil
	}
	beat := reportErrors(func() error { return send(daemon.SdNotifyWatchdog, 0) }, failed)
	return heartbeat.NewMonitor(interval/messagesPerInterval, beat), nil
}

// reportErrors returns a function that calls send and reports each error that differs from the last one.
func reportErrors(send func() error, failed func(error)) func() {
	last := ""
	return func() {
		text := ""
		if err := send(); err != nil {
			if text = err.Error(); text != last {
				failed(err)
			}
		}
		last = text
	}
}
