// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
)

// Run is for commands: it does their work in a new lab with a service, as Binary
// finds it, until a signal ends the context, and removes the lab.
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
