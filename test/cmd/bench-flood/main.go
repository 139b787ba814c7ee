// SPDX-License-Identifier: Apache-2.0

// Command bench-flood floods the service in a lab with 50,000 concurrent connections while
// CAs request challenges. It prints the results of the CAs and the resources of the
// service. It fails when a CA with its own addresses loses a request.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/http01-proxyd/http01-proxyd/test/support/flood"
	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

func main() {
	flood.Main()
	binary := flag.String("binary", "", "path of the http01-proxyd to flood (default: built from the repository)")
	var o lab.FloodOptions
	flag.IntVar(&o.Connections, "connections", 50_000, fmt.Sprintf("number of concurrent connections, at least %d",
		lab.MinFloodConnections))
	flag.IntVar(&o.PerSecond, "per-second", 5_000, "maximum of connections opened per second")
	flag.DurationVar(&o.For, "for", time.Minute, "duration of the CAs' requests after all connections have been opened")
	flag.Parse()
	if err := lab.Run(*binary,
		func(ctx context.Context, l *lab.Lab, binary string) error { return run(ctx, l, binary, o) }); err != nil {
		fmt.Fprintln(os.Stderr, "bench-flood:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, l *lab.Lab, binary string, o lab.FloodOptions) error {
	s, err := l.ControlPlane[0].StartService(ctx, lab.ServiceOptions{
		Binary: binary, Wrap: lab.UnitLimits(),
		Env: lab.UnitEnvironment(),
	})
	if err != nil {
		return err
	}
	if _, err := s.AwaitReason(ctx, "Serving"); err != nil {
		return err
	}
	report, err := l.Flood(ctx, s, o)
	if err != nil {
		return err
	}
	fmt.Print(report)
	if report.Honest.Lost > 0 {
		err = fmt.Errorf("%d of %d honest requests were lost", report.Honest.Lost, report.Honest.Requests)
	}
	return errors.Join(err, s.Stop(ctx))
}
