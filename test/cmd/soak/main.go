// SPDX-License-Identifier: Apache-2.0

// Command soak runs the service through an accelerated life and measures whether memory,
// descriptors, threads, goroutines or files grow: 10,000 challenges an hour, a failover and
// a reload a minute, an exit of the proxy process every five minutes, a scrape a second,
// `status --watch`, and `check` every minute. It writes the curves as an SVG image and prints
// their slopes. It fails if a resource grows or a challenge is lost. A run of a service without
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
	"github.com/http01-proxyd/http01-proxyd/test/support/soak"
)

func main() {
	binary := flag.String("binary", "", "path of the http01-proxyd to run, built with symbols (default: built from the repository)")
	length := flag.Duration("duration", 2*time.Hour, "length of the run")
	out := flag.String("out", "soak.svg", "`FILE` for the curves")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM, unix.SIGHUP)
	err := run(ctx, *binary, *length, *out)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, given string, length time.Duration, out string) error {
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
	chart := soak.Chart(fmt.Sprintf("%v of accelerated life: %s", length, result.summary()), result.warmUp.Hours(), result.series)
	if err := os.WriteFile(out, []byte(chart), 0o644); err != nil { //nolint:gosec // a picture for everyone
		return fmt.Errorf("write the curves: %w", err)
	}
	fmt.Println(result.summary())
	return result.judge()
}
