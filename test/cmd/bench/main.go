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
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/http01-proxyd/http01-proxyd/test/support/bench"
	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

func main() {
	binary := flag.String("binary", "", "the http01-proxyd to measure; built from the repository when empty")
	before := flag.String("before", "", "another http01-proxyd, such as an older one, to compare with")
	out := flag.String("out", "", "folder for the report and its chart; printed only when empty")
	quick := flag.Bool("quick", false, "try everything once, for a moment; the figures mean nothing")
	doors := flag.String("doors", "", "keys of the front doors, separated by commas; all when empty")
	connections := flag.String("connections", "", "wrk's connections, separated by commas")
	rounds := flag.Int("rounds", keepDefault, "how often every front door has its turn")
	cell := flag.Duration("cell", keepDefault, "length of one measurement, in whole seconds")
	open := flag.Int("open", keepDefault, "connections that are open when memory is read; 0 leaves memory out")
	pairs := flag.Int("pairs", keepDefault, "how often the API is measured with and without the table; 0 leaves the API out")
	flag.Parse()
	o := bench.Full()
	if *quick {
		o = bench.Quick()
	}
	set(&o.Rounds, *rounds)
	set(&o.Cell, *cell)
	set(&o.HalfHeads, *open)
	set(&o.Pairs, *pairs)
	if *doors != "" {
		o.Proxies = strings.Split(*doors, ",")
	}
	if *connections != "" {
		o.Connections = nil
		for text := range strings.SplitSeq(*connections, ",") {
			n, err := strconv.Atoi(text)
			if err != nil || n < 1 {
				fmt.Fprintf(os.Stderr, "bench: --connections takes numbers such as 1,64, not %q\n", text)
				os.Exit(2)
			}
			o.Connections = append(o.Connections, n)
		}
	}
	o.Progress = os.Stderr
	if err := run(o, *binary, *before, *out); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// keepDefault is no value: what Full or Quick says is kept.
const keepDefault = -1

func set[T int | time.Duration](field *T, value T) {
	if value != keepDefault {
		*field = value
	}
}

func run(o bench.Options, binary, before, out string) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if o.Binary, err = lab.Binary(ctx, binary); err != nil {
		return err
	}
	if before != "" {
		if o.Before, err = lab.Binary(ctx, before); err != nil {
			return err
		}
	}
	report, err := bench.Run(ctx, o)
	if err != nil {
		return err
	}
	for _, table := range []string{report.Table(), report.GoalTable(), report.CostTable()} {
		fmt.Printf("\n%s", table)
	}
	if out == "" {
		return nil
	}
	return report.Write(out)
}
