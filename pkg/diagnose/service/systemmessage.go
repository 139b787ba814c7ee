// SPDX-License-Identifier: Apache-2.0

package service

import (
	"errors"
	"io/fs"
	"net"
)

// systemMessage is the error of the system call, without the context that a finding
// already has.
func systemMessage(err error) string {
	var path *fs.PathError
	var call *net.OpError
	switch {
	case errors.As(err, &path):
		return path.Error()
	case errors.As(err, &call):
		return call.Error()
	default:
		return err.Error()
	}
}
