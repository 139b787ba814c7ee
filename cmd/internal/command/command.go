// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
)

// Command is one command of a program. It takes flags, and arguments only if it
// declares them. A flag that is given must have a value.
type Command struct {
	Name    string
	Summary string // one line for the program's list of commands
	Help    string // description and examples; no newline at the end
	Files   string // the arguments in the usage, such as "FILE..."; empty without arguments
	// Setup adds the flags and returns the function that runs after parsing, until its
	// context ends. It is also called for help, and must have no other effect. The
	// returned function returns a UsageError for wrong flags.
	Setup func(*flag.FlagSet) func(context.Context, Streams) error
}

// UsageError is an error in the command line. The message that is printed ends with a
// reference to the help.
type UsageError string

func (e UsageError) Error() string { return string(e) }

// ExitCode ends the command with this exit code, after all messages were written.
type ExitCode int

func (e ExitCode) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// execute runs the command as part of a program.
func (c Command) execute(ctx context.Context, program string, args []string, s Streams) int {
	flags := flag.NewFlagSet(c.Name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	run := c.Setup(flags)
	fullName := program + " " + c.Name
	complain := func(what string) int {
		fmt.Fprintf(s.Err, "%s: %s; see %s --help\n", fullName, what, fullName)
		return Usage
	}
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprintf(s.Out, "%s\n\nUsage:\n  %s\n", c.Help, strings.TrimSuffix(fullName+" [flags] "+c.Files, " "))
		describeFlags(s.Out, flags)
		return OK
	case err != nil:
		return complain(describeParseError(err, flags))
	case flags.NArg() > 0 && c.Files == "":
		return complain(fmt.Sprintf("takes no argument, got %q", flags.Arg(0)))
	}
	if name := firstEmptyFlag(flags); name != "" {
		return complain(flagName(name) + " is empty: give a value or remove the flag")
	}
	err = run(ctx, s)
	var usage UsageError
	var exit ExitCode
	switch {
	case errors.As(err, &exit):
		return int(exit)
	case errors.As(err, &usage):
		return complain(err.Error())
	case err != nil:
		fmt.Fprintf(s.Err, "%s: %v\n", fullName, err)
		return Failure
	}
	return OK
}

// describeParseError replaces an error text of package flag by one in the terms of the
// help. These texts are part of the API of package flag in practice: its tests compare
// them.
func describeParseError(err error, flags *flag.FlagSet) string {
	message := err.Error()
	if name, is := strings.CutPrefix(message, "flag provided but not defined: -"); is {
		return "unknown flag " + flagName(name)
	}
	if name, is := strings.CutPrefix(message, "flag needs an argument: -"); is {
		return fmt.Sprintf("%s needs a value: %s", flagName(name), valueKind(flags, name))
	}
	message, is := strings.CutPrefix(message, "invalid ")
	message, boolean := strings.CutPrefix(message, "boolean ")
	between := " for flag -"
	if boolean {
		between = " for -"
	}
	// The value is quoted and may contain any text.
	at := strings.LastIndex(message, between)
	if !is || at < 0 {
		return err.Error()
	}
	value, name := strings.TrimPrefix(message[:at], "value "), message[at+len(between):]
	name, _, _ = strings.Cut(name, ":")
	if boolean {
		return fmt.Sprintf("%s takes no value, or true or false, got %s", flagName(name), value)
	}
	return fmt.Sprintf("%s takes %s, got %s", flagName(name), valueKind(flags, name), value)
}

// valueKind returns the name and description of a flag's value in the help.
func valueKind(flags *flag.FlagSet, name string) string {
	if f := flags.Lookup(name); f != nil {
		kind, text := flag.UnquoteUsage(f)
		return fmt.Sprintf("%s (%s)", kind, text)
	}
	return "a value"
}

// flagName returns a flag as the help shows it.
func flagName(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

// firstEmptyFlag returns a flag that is given without a value, for instance by an unset
// variable. Ignoring such a flag would do something else than requested.
func firstEmptyFlag(flags *flag.FlagSet) (name string) {
	flags.Visit(func(f *flag.Flag) {
		if name == "" && f.Value.String() == "" {
			name = f.Name
		}
	})
	return name
}

// describeFlags lists the flags by name.
func describeFlags(w io.Writer, flags *flag.FlagSet) {
	title := "\nFlags:\n"
	flags.VisitAll(func(f *flag.Flag) {
		fmt.Fprint(w, title)
		title = ""
		kind, text := flag.UnquoteUsage(f)
		if kind != "" { // a boolean has none
			kind = " " + kind
		}
		fmt.Fprintf(w, "  %s%s\n        %s", flagName(f.Name), kind, text)
		if f.DefValue != "" && f.DefValue != "false" {
			fmt.Fprintf(w, " (default %s)", f.DefValue)
		}
		fmt.Fprintln(w)
	})
}
