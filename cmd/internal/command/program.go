// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
)

// The exit codes.
const (
	OK      = 0 // success, including help and version
	Failure = 1 // the command ran and returned an error
	Usage   = 2 // the command line is wrong, and the command has not run
)

// Program is one binary. It is immutable, and can run several command lines
// concurrently if its commands can.
type Program struct {
	// Name begins each message, and is used in references to the help.
	Name string
	// Head and Foot are the help texts before and after the list of commands: the
	// purpose, and the exit codes. Both are wrapped, without a newline at the end.
	Head, Foot string
	// Commands are listed in this order. The command "version" is added.
	Commands []Command
}

// Streams are the standard streams of a command. In may be nil if no command reads.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// Main runs the command line of the process and exits with its code. SIGTERM and SIGINT
// end the command's context. A second signal ends the process, in case the command does
// not stop.
func (p Program) Main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	context.AfterFunc(ctx, stop)
	code := p.Execute(ctx, os.Args[1:], Streams{os.Stdin, os.Stdout, os.Stderr})
	stop()
	os.Exit(code)
}

// Execute runs one command line, without the name of the program, and returns its exit
// code. Error messages, and help that was not requested, are written to s.Err.
// Everything else is written to s.Out.
func (p Program) Execute(ctx context.Context, args []string, s Streams) int {
	if len(args) == 0 {
		p.usage(s.Err)
		return Usage
	}
	switch {
	case isHelp(args[0]):
		if len(args) > 1 && !isHelp(args[1]) {
			return p.Execute(ctx, []string{args[1], "--help"}, s)
		}
		p.usage(s.Out)
		return OK
	case args[0] == "--version" || args[0] == "-version":
		args = []string{versionName}
	}
	for _, c := range p.commands() {
		if c.Name == args[0] {
			return c.execute(ctx, p.Name, args[1:], s)
		}
	}
	fmt.Fprintf(s.Err, "%s: unknown command %q; see %s --help\n", p.Name, args[0], p.Name)
	return Usage
}

func isHelp(arg string) bool {
	return slices.Contains([]string{"help", "-h", "-help", "--help"}, arg)
}

func (p Program) commands() []Command {
	return slices.Concat(p.Commands, []Command{versionCommand(p.Name)})
}

func (p Program) usage(w io.Writer) {
	fmt.Fprintf(w, "%s\n\nUsage:\n  %s COMMAND [flags]\n\nCommands:\n", p.Head, p.Name)
	width := 0
	for _, c := range p.commands() {
		width = max(width, len(c.Name))
	}
	for _, c := range p.commands() {
		fmt.Fprintf(w, "  %-*s  %s\n", width, c.Name, c.Summary)
	}
	fmt.Fprintf(w, "\n%s\n", p.Foot)
}
