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

// Exit codes.
const (
	OK      = 0 // done, help and version included
	Failure = 1 // the command ran and returned an error
	Usage   = 2 // the command line is wrong: nothing was done
)

// Program is one binary. It is not changed by running, and may run several
// command lines at the same time if its commands may.
type Program struct {
	// Name opens each message, and stands in the examples of how to get help.
	Name string
	// Head and Foot are what the program's help says before and after the list
	// of commands: what it is for, and what its exit codes mean. Both are broken
	// into lines, without a newline at the end.
	Head, Foot string
	// Commands are listed in this order. The command "version" is added to them.
	Commands []Command
}

// Streams are what a command reads and writes. In may be nil where no command
// reads.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// Main runs the command line of the process and exits with its code. SIGTERM
// and SIGINT end the command's context, after which a second one ends the
// process, should stopping take too long.
func (p Program) Main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	context.AfterFunc(ctx, stop)
	code := p.Execute(ctx, os.Args[1:], Streams{os.Stdin, os.Stdout, os.Stderr})
	stop()
	os.Exit(code)
}

// Execute runs one command line, given without the program's own name, and
// returns its exit code. Messages and the help that nobody asked for go to
// s.Err, all else to s.Out.
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
