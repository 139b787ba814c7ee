// SPDX-License-Identifier: Apache-2.0

// Command soak runs the service through an accelerated life and measures whether memory,
// descriptors, threads or files grow: 10,000 challenges an hour, a failover and a reload a
// minute, an exit of the proxy process every five minutes, a scrape a second,
// `status --watch`, and `check` every minute. It prints the slopes. It fails if a resource grows or a challenge is
// lost. A run of a service without
// a leak fails with a probability of at most 5 %: the verdict is about all resources together.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

func main() {
	binary := flag.String("binary", "", "path of the http01-proxyd to run (default: built from the repository)")
	length := flag.Duration("duration", 2*time.Hour, "length of the run")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM, unix.SIGHUP)
	err := run(ctx, *binary, *length)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, given string, length time.Duration) error {
	binary, err := lab.Binary(ctx, given)
	if err != nil {
		return err
	}
	if _, err := lab.Clean(ctx); err != nil {
		return err
	}
	result, err := live(ctx, binary, length)
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return fmt.Errorf("no verdict: %w", context.Cause(ctx))
	}
	fmt.Println(result.summary())
	return result.judge()
}
