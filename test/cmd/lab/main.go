// SPDX-License-Identifier: Apache-2.0

// Command lab brings up a test lab for manual inspection and removes what crashed labs
// left.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/http01-proxyd/http01-proxyd/test/support/lab"
)

const usage = `usage: lab up | clean

  up     bring up a lab and keep it until Ctrl-C
  clean  remove what crashed labs left; running labs stay
`

func main() {
	os.Exit(run(os.Args[1:]))
}

func run(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	commands := map[string]func(context.Context) error{"up": up, "clean": clean}
	if len(args) != 1 || commands[args[0]] == nil {
		fmt.Fprint(os.Stderr, usage)
		return 2
	}
	if err := commands[args[0]](ctx); err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
		return 1
	}
	return 0
}

func up(ctx context.Context) error {
	l, err := lab.New(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("%s is up. API VIPs %s and %s, ingress VIPs %s and %s. Files and logs: %s\n",
		l.ID, l.API.V4, l.API.V6, l.Ingress.V4, l.Ingress.V6, l.Dir)
	fmt.Printf("Shell on a node: ip netns exec %s bash\n", l.ControlPlane[0].Namespace)
	fmt.Println("Ctrl-C removes it.")
	<-ctx.Done()
	return l.Close()
}

func clean(ctx context.Context) error {
	removed, err := lab.Clean(ctx)
	if len(removed) > 0 {
		fmt.Println("removed:", strings.Join(removed, " "))
	}
	return err
}
