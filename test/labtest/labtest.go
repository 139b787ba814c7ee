// SPDX-License-Identifier: Apache-2.0

// Package labtest runs tests of which each has a lab of its own.
package labtest

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/test/lab"
)

// Main runs a package's tests, and ends the process. Before, use gets the context of
// the run, which a signal ends, and the program that is tested: HTTP01_PROXYD names it,
// or else it is built.
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

// Open brings a lab up until the test ends, and logs what its processes have said
// if that fails. run is the context of the whole run, which a signal ends.
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
	// A signal ends the test's commands by the lab that goes.
	interrupted := context.AfterFunc(run, func() { _ = l.Close(); os.Exit(130) })
	t.Cleanup(func() { interrupted() })
	return l
}
