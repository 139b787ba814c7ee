// SPDX-License-Identifier: Apache-2.0

package service

import (
	"fmt"
	"io/fs"
	"net"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/pkg/host/systemd"
	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// TestServiceUnresponsive distinguishes an unresponsive service from a stopped one and
// from one that only root can query.
func TestServiceUnresponsive(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		err    error
		active string
		want   bool
	}{
		"it responds":            {nil, "active", false},
		"it takes too long":      {fmt.Errorf("read: %w", os.ErrDeadlineExceeded), "active", true},
		"the same, no systemd":   {fmt.Errorf("read: %w", &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}), "", true},
		"active, no socket":      {unix.ECONNREFUSED, "active", true},
		"it is stopped":          {fs.ErrNotExist, "inactive", false},
		"it starts":              {unix.ECONNREFUSED, "activating", false},
		"only root can query it": {fs.ErrPermission, "active", false},
	} {
		s := &Service{
			unit: func() (systemd.Unit, error) {
				if tt.active == "" {
					return systemd.Unit{}, fs.ErrNotExist
				}
				return systemd.Unit{ActiveState: tt.active}, nil
			},
			Report: func() (report.Report, error) { return report.Report{}, tt.err },
		}
		if got := s.isUnresponsive(); got != tt.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
