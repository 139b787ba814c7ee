// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"syscall"
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

const (
	timeout        = 5 * time.Second // from connect to the last byte
	maxReportBytes = 4 << 20
)

// ErrInvalidReport means that the service is running but its response is not a report.
var ErrInvalidReport = errors.New("the service is running, but its report cannot be read")

// Fetch returns the current report of the running service. path is the status socket.
func Fetch(ctx context.Context, path string) (report.Report, error) {
	dialer := net.Dialer{Timeout: timeout}
	conn, err := dialer.DialContext(ctx, "unix", path)
	if err != nil {
		if errors.Is(err, fs.ErrPermission) {
			return report.Report{}, fmt.Errorf("cannot query the service: only root may connect: %w", err)
		}
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
			return report.Report{}, fmt.Errorf("%w: %w", report.ErrNotRunning, err)
		}
		return report.Report{}, fmt.Errorf("cannot query the service: it does not accept the connection: %w", err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(timeout)); err != nil {
		return report.Report{}, fmt.Errorf("cannot query the service: %w", err)
	}
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })()
	var r report.Report
	err = json.NewDecoder(io.LimitReader(conn, maxReportBytes)).Decode(&r)
	var netErr *net.OpError
	switch {
	case errors.As(err, &netErr): // it hangs, or is about to end
		return report.Report{}, fmt.Errorf("cannot read the report of the service from %s: %w", path, err)
	case errors.Is(err, io.EOF):
		return report.Report{}, fmt.Errorf("%w: %s closed the connection without a report", ErrInvalidReport, path)
	case err != nil:
		return report.Report{}, fmt.Errorf("%w: %w", ErrInvalidReport, err)
	}
	return r, nil
}
