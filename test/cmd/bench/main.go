// SPDX-License-Identifier: Apache-2.0

// Command bench compares front doors for challenges and measures what the
// service's table costs the API. It prints what it measured, and asserts
// nothing.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/http01-proxyd/http01-proxyd/test/bench"
	"github.com/http01-proxyd/http01-proxyd/test/lab"
)

func main() {
	binary := flag.String("binary", "", "the http01-proxyd to measure; built from the repository when empty")
	out := flag.String("out", "", "folder for the report and its chart; printed only when empty")
	quick := flag.Bool("quick", false, "try everything once, for a moment; the figures mean nothing")
	doors := flag.String("doors", "", "keys of the front doors, separated by commas; all when empty")
	rounds := flag.Int("rounds", 0, "how often every front door has its turn")
	cell := flag.Duration("cell", 0, "length of one measurement, in whole seconds")
	pairs := flag.Int("pairs", 0, "how often the API is measured with and without the table")
	flag.Parse()
	o := bench.Full()
	if *quick {
		o = bench.Quick()
	}
	if *rounds > 0 {
		o.Rounds = *rounds
	}
	if *cell > 0 {
		o.Cell = *cell
	}
	if *pairs > 0 {
		o.Pairs = *pairs
	}
	if *doors != "" {
		o.Doors = strings.Split(*doors, ",")
	}
	o.Progress = os.Stderr
	if err := run(o, *binary, *out); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(o bench.Options, binary, out string) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if binary == "" {
		o.Binary, err = lab.BuildService(ctx)
	} else {
		o.Binary, err = filepath.Abs(binary)
	}
	if err != nil {
		return err
	}
	report, err := bench.Run(ctx, o)
	if err != nil {
		return err
	}
	fmt.Printf("\n%s\n%s\n%s", report.Table(), report.GoalTable(), report.CostTable())
	if out == "" {
		return nil
	}
	return report.Write(out)
}
