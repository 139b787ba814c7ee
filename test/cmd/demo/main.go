// SPDX-License-Identifier: Apache-2.0

// Command demo shows the service's main task in a lab: a CA validates a name with the API
// VIP, also after the VIP has moved.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
	"github.com/http01-proxyd/http01-proxyd/test/support/steps"
)

func main() {
	binary := flag.String("binary", "", "path of the http01-proxyd to show (default: built from the repository)")
	flag.Parse()
	ok, err := run(*binary)
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

// run runs all steps and reports whether they succeeded.
func run(binary string) (ok bool, err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if os.Geteuid() != 0 {
		return false, errors.New("the lab needs root for network namespaces: run it with sudo or `make demo`")
	}
	d := &demo{}
	if d.binary, err = lab.Binary(ctx, binary); err != nil {
		return false, err
	}
	// The programs are compiled first, so that the first step shows the time of the lab
	// alone.
	if _, err := lab.Build(ctx); err != nil {
		return false, err
	}
	defer func() {
		if closeErr := d.close(); closeErr != nil {
			err = errors.Join(err, fmt.Errorf("remove the lab: %w", closeErr))
			return
		}
		fmt.Println("The lab has been removed.")
	}()
	return steps.Show(ctx, d.steps(), d.logs), nil
}
