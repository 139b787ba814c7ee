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

// Of is what an error of the system or of the table says, in a child process. One of
// TLS is for those who speak it.
func Of(err error) Why {
	var why Why
	var number syscall.Errno
	switch {
	case err == nil:
		return Why{}
	case errors.As(err, &why):
		return why
	case errors.As(err, &number):
		return Why{Reason: System, Number: int(number)}
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded), os.IsTimeout(err), isTimeout(err):
		return Why{Reason: Timeout}
	case errors.Is(err, net.ErrClosed), errors.Is(err, context.Canceled):
		return Why{Reason: Closed}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.ErrNoProgress):
		return Why{Reason: Ended}
	default:
		return Why{Reason: Unknown}
	}
}

func isTimeout(err error) bool {
	var late net.Error
	return errors.As(err, &late) && late.Timeout()
}
