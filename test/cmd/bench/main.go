// SPDX-License-Identifier: Apache-2.0

// Command bench compares proxies for challenges and measures the effect of the service's
// table on the API. It prints results and asserts nothing.
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
	binary := flag.String("binary", "", "path of the http01-proxyd to measure (default: built from the repository)")
	before := flag.String("before", "", "path of another http01-proxyd to compare with (default: none)")
	out := flag.String("out", "", "folder for the report (default: print only)")
	quick := flag.Bool("quick", false,
		"compare only the service, --before, HAProxy and nginx, at 64 connections, in three minutes (default false)")
	proxies := flag.String("proxies", "", "comma-separated keys of the proxies (default: all)")
	connections := flag.String("connections", "", "comma-separated numbers of connections at a time (default 1,16,64,256)")
	rounds := flag.Int("rounds", keepDefault, "number of rounds (default 15)")
	cell := flag.Duration("cell", keepDefault, "duration of one measurement (default 2s; 1s with --quick)")
	open := flag.Int("open", keepDefault, "open connections when memory is read, 0 to skip memory (default 10000)")
	pairs := flag.Int("pairs", keepDefault,
		"pairs of measurements with and without the table, 0 to skip the API (default 1000)")
	flag.Parse()
	o := bench.Full()
	if *quick {
		o = bench.Quick(*before != "")
	}
	set(&o.Rounds, *rounds)
	set(&o.Cell, *cell)
	set(&o.HalfHeads, *open)
	set(&o.Pairs, *pairs)
	if *proxies != "" {
		o.Proxies = strings.Split(*proxies, ",")
	}
	if *connections != "" {
		o.Connections = nil
		for text := range strings.SplitSeq(*connections, ",") {
			n, err := strconv.Atoi(text)
			if err != nil || n < 1 {
				fmt.Fprintf(os.Stderr, "bench: invalid --connections %q: give numbers such as 1,64\n", text)
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

// keepDefault keeps the value of Full or Quick.
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
	for _, table := range []string{
		report.Table(), report.MemoryTable(), report.VersionTable(), report.GoalTable(), report.CostTable(),
	} {
		if table != "" {
			fmt.Printf("\n%s", table)
		}
	}
	if out == "" {
		return nil
	}
	return report.Write(out)
}
