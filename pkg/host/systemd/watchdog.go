// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"fmt"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/http01-proxyd/http01-proxyd/internal/heartbeat"
)

// Watchdog sends heartbeats to systemd's watchdog while every source reports. If one hangs, systemd ends
// the process after WatchdogSec. Sources must report at least every quarter of WatchdogSec.
type Watchdog = heartbeat.Monitor

// messagesPerInterval limits the heartbeats in one WatchdogSec.
const messagesPerInterval = 8

// NewWatchdog reads WATCHDOG_USEC and WATCHDOG_PID. Without them it sends nothing. failed is called with
// an error of sending unless it equals that of the last heartbeat.
func NewWatchdog(failed func(error)) (*Watchdog, error) {
	interval, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		return nil, fmt.Errorf("read systemd's watchdog setting: %w", err)
	}
	if interval == 0 {
		return heartbeat.NewMonitor(0, func() {}), nil
	}
	return heartbeat.NewMonitor(interval/messagesPerInterval, reportErrors(func() error { return send(daemon.SdNotifyWatchdog) }, failed)), nil
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
