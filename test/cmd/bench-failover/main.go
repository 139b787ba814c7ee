// SPDX-License-Identifier: Apache-2.0

// Command bench-failover measures in a lab how soon a challenge succeeds after the kernel's
// event for the VIP's address. It also measures how long a start takes and how much memory
// the idle service uses. It prints results and asserts nothing.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
	"github.com/http01-proxyd/http01-proxyd/test/support/slowsync"
)

func main() {
	slowsync.Main()
	binary := flag.String("binary", "", "path of the http01-proxyd to measure (default: built from the repository)")
	count := flag.Int("moves", 200, "number of moves, alternating between IPv4 and IPv6")
	starts := flag.Int("starts", 20, "number of service starts")
	slowState := flag.Bool("slow-state", false, "delay each fsync of the service by 5 s during the moves")
	flag.Parse()
	if err := lab.Run(*binary, func(ctx context.Context, l *lab.Lab, binary string) error {
		return run(ctx, l, binary, *count, *starts, *slowState)
	}); err != nil {
		fmt.Fprintln(os.Stderr, "bench-failover:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, l *lab.Lab, binary string, count, starts int, slowState bool) error {
	if err := measureStarts(ctx, l, binary, starts); err != nil {
		return err
	}
	if err := measureMemory(ctx, l, binary); err != nil {
		return err
	}
	return measureMoves(ctx, l, binary, count, slowState)
}

// measureStarts measures the time from fork and exec to READY=1.
func measureStarts(ctx context.Context, l *lab.Lab, binary string, starts int) error {
	var elapsed []time.Duration
	for range starts {
		s, err := l.ControlPlane[0].StartService(ctx, lab.ServiceOptions{Binary: binary})
		if err != nil {
			return err
		}
		elapsed = append(elapsed, s.Notifications.ReadyAt().Sub(s.Started))
		if err := s.Stop(ctx); err != nil {
			return err
		}
	}
	report("exec to READY=1 (holds both VIPs)", elapsed)
	return nil
}

// settle is the idle time before memory is read.
const settle = 5 * time.Second

// measureMemory measures the memory of the idle service.
func measureMemory(ctx context.Context, l *lab.Lab, binary string) error {
	s, err := l.ControlPlane[0].StartService(ctx, lab.ServiceOptions{Binary: binary})
	if err != nil {
		return err
	}
	if _, err := s.AwaitReason(ctx, "Serving"); err != nil {
		return err
	}
	select {
	case <-time.After(settle):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	m, err := s.Footprint()
	if err != nil {
		return err
	}
	fmt.Printf("%-44s %v\n", fmt.Sprintf("memory, idle %v after the start", settle), m)
	return s.Stop(ctx)
}

// report prints the distribution of measured times.
func report(what string, elapsed []time.Duration) {
	if len(elapsed) == 0 {
		return
	}
	slices.Sort(elapsed)
	at := func(q float64) float64 {
		i := min(int(q*float64(len(elapsed))), len(elapsed)-1)
		return float64(elapsed[i].Microseconds()) / 1000
	}
	fmt.Printf("%-44s n %3d  min %7.3f  p50 %7.3f  p90 %7.3f  p99 %7.3f  max %7.3f ms\n",
		what, len(elapsed), at(0), at(0.5), at(0.9), at(0.99), at(1))
}
