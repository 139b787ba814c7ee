// SPDX-License-Identifier: Apache-2.0

// Package labtest runs tests in labs: in one that a package's tests use in turn, or in one
// per test.
package labtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

// Main runs a package's tests and exits. Before the tests, use gets the context of the run,
// which a signal ends, and the binary under test: that in HTTP01_PROXYD, or one that it
// builds.
func Main(m *testing.M, use func(run context.Context, binary string)) {
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	binary, err := lab.Binary(ctx, os.Getenv("HTTP01_PROXYD"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	use(ctx, binary)
	code := m.Run()
	stop()
	os.Exit(code)
}

// Shared brings up a lab that all tests of a package use in turn, runs the tests, and
// exits. Before the tests, use gets the lab and the binary of [Main]. Without root no lab
// is created and the tests skip themselves.
func Shared(m *testing.M, use func(l *lab.Lab, binary string) error, options ...lab.Option) {
	if os.Geteuid() != 0 {
		os.Exit(m.Run())
	}
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	code, err := runIn(ctx, m, use, options)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func runIn(ctx context.Context, m *testing.M, use func(*lab.Lab, string) error, options []lab.Option) (code int,
	err error,
) {
	binary, err := lab.Binary(ctx, os.Getenv("HTTP01_PROXYD"))
	if err != nil {
		return 1, err
	}
	l, err := lab.New(ctx, options...)
	if err != nil {
		return 1, err
	}
	if err := use(l, binary); err != nil {
		return 1, errors.Join(err, l.Close())
	}
	// A signal ends the tests' commands and closes the lab.
	closed := context.AfterFunc(ctx, func() { _ = l.Close(); os.Exit(130) })
	code = m.Run()
	closed()
	return code, l.Close()
}

// Open brings up a lab until the test ends, and logs the output of its processes when the
// test fails. run is the context of the whole run, which a signal ends.
func Open(run context.Context, t *testing.T, y lab.Layout) *lab.Lab {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: network namespaces")
	}
	ctx, cancel := context.WithCancel(run)
	t.Cleanup(cancel)
	l, err := lab.New(ctx, lab.With(y))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(l.Logs())
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	// A signal closes the lab, which ends the test's commands.
	interrupted := context.AfterFunc(run, func() { _ = l.Close(); os.Exit(130) })
	t.Cleanup(func() { interrupted() })
	return l
}
