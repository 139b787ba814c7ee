// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// The exit codes of all commands.
const (
	OK        = 0
	Failure   = 1
	Usage     = 2
	Unhealthy = 3
	Unknown   = 4
)

// ExitCodes is the table of the exit codes in the help.
const ExitCodes = `Exit codes:
  0  success; healthy, if the command reports health
  1  the command failed; the message contains the reason
  2  the command line is wrong, and the command has not run
  3  unhealthy: a problem was found, or the condition is False
  4  unknown: not everything was examined, and no problem was found`

// UsageError is an error in the command line. The message that is printed ends with a
// reference to the help.
type UsageError string

func (e UsageError) Error() string { return string(e) }

// ExitCode ends the command with this exit code, after all messages were written.
type ExitCode int

func (e ExitCode) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// OfOutcome ends the command with the exit code of an outcome.
func OfOutcome(o report.CheckOutcome) error {
	switch o {
	case report.CheckProblem:
		return ExitCode(Unhealthy)
	case report.CheckNotApplicable, report.CheckIncomplete:
		return ExitCode(Unknown)
	default:
		return nil
	}
}

// Streams are the standard streams of a command.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// Main runs the command line of the process and exits with its code. SIGTERM and SIGINT
// end the command's context. A second signal ends the process, in case the command does
// not stop.
func Main(root *cobra.Command) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	context.AfterFunc(ctx, stop)
	code := Execute(ctx, root, os.Args[1:], Streams{os.Stdin, os.Stdout, os.Stderr})
	stop()
	os.Exit(code)
}

// Execute runs one command line, without the name of the program, and returns its exit
// code. Error messages, and help that was not requested, are written to s.Err.
// Everything else is written to s.Out.
func Execute(ctx context.Context, root *cobra.Command, args []string, s Streams) int {
	root.SetArgs(append([]string{}, args...)) // nil would mean the arguments of the process
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	c, err := root.ExecuteContextC(ctx)
	var exit ExitCode
	switch {
	case err == nil:
		return OK
	case errors.As(err, &exit):
		return int(exit)
	}
	code, help := Failure, ""
	var usage UsageError
	if errors.As(err, &usage) {
		code, help = Usage, c.CommandPath()+" --help"
	}
	format := ""
	if f := c.Flags().Lookup("output"); f != nil && f.Changed {
		format = f.Value.String()
	}
	writeError(s.Err, c.CommandPath(), err, format, code, help)
	return code
}

// ErrorDocument is why a command failed. Behind -o json it is written to standard error.
type ErrorDocument struct {
	report.Header

	Command  string `json:"command"`        // the failed command
	Message  string `json:"message"`        // the reason, and the remediation if it is known
	ExitCode int    `json:"exitCode"`       // 1: the command failed, 2: the command line is wrong
	Help     string `json:"help,omitempty"` // the command that prints the help, if the command line is wrong
}

func writeError(w io.Writer, command string, err error, format string, code int, help string) {
	if format == JSON || format == YAML {
		_ = WriteDocument(w, format, ErrorDocument{report.NewHeader("Error"), command, err.Error(), code, help})
		return
	}
	switch {
	case help != "" && strings.HasSuffix(err.Error(), "?"):
		help = " See " + help
	case help != "":
		help = "; see " + help
	}
	fmt.Fprintf(w, "%s: %v%s\n", command, err, help)
}

// validateFlags rejects flags that are given without a value, for instance by an unset
// variable. Ignoring such a flag would do something else than requested. It also makes
// the errors of cobra's flag groups usage errors.
func validateFlags(c *cobra.Command) error {
	empty := ""
	c.Flags().Visit(func(f *pflag.Flag) {
		if value := f.Value.String(); empty == "" && (value == "" || value == "[]") {
			empty = f.Name
		}
	})
	if empty != "" {
		return UsageError("--" + empty + " is empty: give a value or remove the flag")
	}
	if err := errors.Join(c.ValidateRequiredFlags(), c.ValidateFlagGroups()); err != nil {
		return UsageError(err.Error())
	}
	return nil
}
