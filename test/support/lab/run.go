// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
)

// Run is for commands: it calls work in a new lab with the binary that Binary returns, and
// then removes the lab. A signal ends the context.
func Run(given string, work func(ctx context.Context, l *Lab, binary string) error) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	binary, err := Binary(ctx, given)
	if err != nil {
		return err
	}
	l, err := New(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	return work(ctx, l, binary)
}
