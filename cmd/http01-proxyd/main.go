// SPDX-License-Identifier: Apache-2.0

// Command http01-proxyd leads ACME HTTP-01 challenges that arrive at the API
// VIP to the ingress routers.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// Exit codes.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
)

// command is one verb of the command line.
type command struct {
	name    string
	summary string
	help    string // what it does, and examples
	setup   func(*flag.FlagSet) func(context.Context, streams) error
}

type streams struct {
	out io.Writer
}

func commands() []command {
	return []command{runCommand(), statusCommand(), cleanupCommand(), versionCommand()}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	// A second signal ends a stop that takes too long.
	context.AfterFunc(ctx, stop)
	code := execute(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// execute runs one command line and returns its exit code.
func execute(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		usage(stderr)
		return exitUsage
	}
	switch args[0] {
	case "help", "-h", "-help", "--help":
		if len(args) > 1 {
			return execute(ctx, []string{args[1], "--help"}, stdout, stderr)
		}
		usage(stdout)
		return exitOK
	case "--version", "-version":
		args = []string{"version"}
	}
	for _, c := range commands() {
		if c.name == args[0] {
			return c.execute(ctx, args[1:], stdout, stderr)
		}
	}
	fmt.Fprintf(stderr, "http01-proxyd: unknown command %q; see http01-proxyd --help\n", args[0])
	return exitUsage
}

func (c command) execute(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet(c.name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	run := c.setup(flags)
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		c.usage(stdout, flags)
		return exitOK
	case err != nil:
		c.complain(stderr, strings.Replace(err.Error(), "flag provided but not defined: -", "unknown flag --", 1))
		return exitUsage
	case flags.NArg() > 0:
		c.complain(stderr, fmt.Sprintf("takes no argument, got %q", flags.Arg(0)))
		return exitUsage
	}
	err = run(ctx, streams{out: stdout})
	var usage usageError
	switch {
	case errors.As(err, &usage):
		c.complain(stderr, err.Error())
		return exitUsage
	case err != nil:
		fmt.Fprintf(stderr, "http01-proxyd %s: %v\n", c.name, err)
		return exitFailure
	}
	return exitOK
}

// complain says what is wrong with the command line.
func (c command) complain(w io.Writer, what string) {
	fmt.Fprintf(w, "http01-proxyd %s: %s; see http01-proxyd %s --help\n", c.name, what, c.name)
}

// usageError is what is wrong with the command line itself.
type usageError string

func (e usageError) Error() string { return string(e) }

func usage(w io.Writer) {
	fmt.Fprint(w, `http01-proxyd leads ACME HTTP-01 challenges that arrive at the API VIP to the
ingress routers, and answers everything else on port 80 of that VIP with 400.

Usage:
  http01-proxyd COMMAND [flags]

Commands:
`)
	for _, c := range commands() {
		fmt.Fprintf(w, "  %-9s%s\n", c.name, c.summary)
	}
	fmt.Fprint(w, `
"http01-proxyd COMMAND --help" tells more. Exit codes: 0 done, 1 failed, 2 the
command line is wrong.
`)
}

func (c command) usage(w io.Writer, flags *flag.FlagSet) {
	fmt.Fprintf(w, "%s\n\nUsage:\n  http01-proxyd %s [flags]\n", c.help, c.name)
	first := true
	flags.VisitAll(func(f *flag.Flag) {
		if first {
			fmt.Fprint(w, "\nFlags:\n")
			first = false
		}
		dashes := "--"
		if len(f.Name) == 1 {
			dashes = "-"
		}
		kind, text := flag.UnquoteUsage(f)
		fmt.Fprintf(w, "  %s%s %s\n        %s", dashes, f.Name, kind, text)
		if f.DefValue != "" {
			fmt.Fprintf(w, " (default %s)", f.DefValue)
		}
		fmt.Fprintln(w)
	})
}
