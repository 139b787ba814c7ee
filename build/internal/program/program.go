// SPDX-License-Identifier: Apache-2.0

// Package program owns the command lines of this module's programs: flags, help and
// exit codes.
package program

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
	OK      = 0
	Failure = 1
	Usage   = 2
)

// Program is one command.
type Program struct {
	Name string
	Help string // description and examples
	// Setup adds the flags and returns the function that runs after parsing. It writes
	// the result for the caller to out, and notes for people to notes.
	Setup func(*flag.FlagSet) Run
}

// Run is the work of a program, until it is complete or ctx ends.
type Run func(ctx context.Context, out, notes io.Writer) error

// Main runs the program as a process, until SIGTERM or SIGINT.
func (p Program) Main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	code := p.Execute(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// Execute runs one command line and returns its exit code.
func (p Program) Execute(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet(p.Name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	run := p.Setup(flags)
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		p.usage(stdout, flags)
		return OK
	case err != nil:
		p.usageError(stderr, strings.Replace(err.Error(), "flag provided but not defined: -", "unknown flag --", 1))
		return Usage
	case flags.NArg() > 0:
		p.usageError(stderr, fmt.Sprintf("takes no argument, got %q", flags.Arg(0)))
		return Usage
	}
	if err := run(ctx, stdout, stderr); err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", p.Name, err)
		return Failure
	}
	return OK
}

// usageError reports an error in the command line.
func (p Program) usageError(w io.Writer, what string) {
	fmt.Fprintf(w, "%s: %s; in build/, see %s --help\n", p.Name, what, p.command())
}

// command returns the command that runs the program: it is not installed.
func (p Program) command() string { return "go run ./cmd/" + p.Name }

func (p Program) usage(w io.Writer, flags *flag.FlagSet) {
	fmt.Fprintf(w, "%s\n\nUsage, in build/:\n  %s [flags]\n\nFlags:\n", p.Help, p.command())
	flags.VisitAll(func(f *flag.Flag) {
		kind, text := flag.UnquoteUsage(f)
		fmt.Fprintf(w, "  --%s %s\n        %s", f.Name, kind, text)
		if f.DefValue != "" && f.DefValue != "false" {
			fmt.Fprintf(w, " (default %s)", f.DefValue)
		}
		fmt.Fprintln(w)
	})
	fmt.Fprint(w, "\nExit codes: 0 done, 1 failed, 2 the command line is wrong.\n")
}
