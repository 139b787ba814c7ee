// SPDX-License-Identifier: Apache-2.0

// Command rehearsal shows cert-manager's own controllers on a real API server, with the
// service in the path of the challenges.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/http01-proxyd/http01-proxyd/test/rehearsal"
	"github.com/http01-proxyd/http01-proxyd/test/rehearsal/cluster"
	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
	"github.com/http01-proxyd/http01-proxyd/test/support/steps"
)

func main() {
	binary := flag.String("binary", "", "path of the http01-proxyd to show (default: built from the repository)")
	compact := flag.Bool("compact", false, "run the router on the control-plane nodes")
	scale := flag.Int("scale", 0,
		"request this many Certificates at once, and inject faults (default 0: one Certificate, step by step)")
	flag.Parse()
	ok, err := run(*binary, lab.Layout{Compact: *compact}, *scale)
	if err != nil {
		fmt.Fprintln(os.Stderr, "rehearsal:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

// show is a sequence of steps in a lab.
type show interface {
	Steps() []steps.Step
	Logs() string
	Close() error
}

// run runs all steps and reports whether they succeeded.
func run(binary string, layout lab.Layout, scale int) (ok bool, err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if os.Geteuid() != 0 {
		return false, errors.New("the lab needs root for network namespaces: run it with sudo or `make rehearsal`")
	}
	if scale > 0 && layout.Compact {
		return false, errors.New("--scale has the router on its own node: omit --compact")
	}
	base := rehearsal.Rehearsal{Layout: layout}
	if base.Binary, err = lab.Binary(ctx, binary); err != nil {
		return false, err
	}
	begin := time.Now()
	fmt.Println("Compiling etcd, kube-apiserver and cert-manager, unless .cache has them. The first time takes minutes.")
	if base.Programs, err = cluster.Build(ctx); err != nil {
		return false, err
	}
	var r show = &base
	if scale > 0 {
		r = &rehearsal.Scale{Rehearsal: base, Certificates: scale}
	}
	fmt.Printf("The programs are there after %.1f s.\n", time.Since(begin).Seconds())
	defer func() {
		if closeErr := r.Close(); closeErr != nil {
			err = errors.Join(err, fmt.Errorf("remove the lab: %w", closeErr))
			return
		}
		fmt.Println("The lab has been removed.")
	}()
	return steps.Show(ctx, r.Steps(), r.Logs), nil
}
