// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"errors"
	"log/slog"
	"net/netip"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/internal/nstest"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// TestExporterErrorIsLoggedOnce has several retries fail for the same reason: each is
// reported in the status, and one is logged until the configuration changes.
func TestExporterErrorIsLoggedOnce(t *testing.T) {
	t.Parallel()
	log, reported := &nstest.Log{}, 0
	e := newExporterSupervisor(slog.New(slog.NewTextHandler(log, nil)), nil, func(m report.Metrics) {
		reported++
		if m.Error != "the port is taken" {
			t.Errorf("reported %+v", m)
		}
	}, minExporterBackoff)
	fail := func(lines int) {
		t.Helper()
		for range 3 {
			e.recordError(netip.MustParseAddrPort("127.0.0.1:9645"), errors.New("the port is taken"))
		}
		if n := log.Count("metrics are not served on 127.0.0.1:9645"); n != lines {
			t.Errorf("%d lines, want %d:\n%s", n, lines, log.String())
		}
	}
	fail(1)
	e.resetLog()
	fail(2)
	if reported != 6 {
		t.Errorf("reported %d times, want 6", reported)
	}
}
