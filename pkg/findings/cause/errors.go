// SPDX-License-Identifier: Apache-2.0

package cause

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
)

// DetailsOf converts an error of the system or of this package, in a child process.
// Errors of TLS are converted by the packages that use TLS.
func DetailsOf(err error) Details {
	var details Details
	var number syscall.Errno
	switch {
	case err == nil:
		return Details{}
	case errors.As(err, &details):
		return details
	case errors.As(err, &number):
		return Details{Reason: System, Number: int(number)}
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded), os.IsTimeout(err), isTimeout(err):
		return Details{Reason: Timeout}
	case errors.Is(err, net.ErrClosed), errors.Is(err, context.Canceled):
		return Details{Reason: Closed}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.ErrNoProgress):
		return Details{Reason: EndOfStream}
	default:
		return Details{Reason: Unknown}
	}
}

func isTimeout(err error) bool {
	var netErr net.Error
	return errors.As(err, &netErr) && netErr.Timeout()
}
