// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/command"
)

// tool has a command of each kind.
func tool() command.Program {
	return command.Program{
		Name:     "tool",
		Head:     "tool is for\ntests.",
		Foot:     "Exit codes:\n0 and others.",
		Commands: []command.Command{copyCommand(), breakCommand(), waitCommand()},
	}
}

// copyCommand has flags of all kinds, and reads and writes.
func copyCommand() command.Command {
	return command.Command{
		Name: "copy", Summary: "give the input back", Help: "Copy it.\n\nExample:\n  tool copy -u",
		Setup: func(flags *flag.FlagSet) func(context.Context, command.Streams) error {
			prefix := flags.String("prefix", "> ", "put `TEXT` before it")
			suffix := flags.String("suffix", "", "put `TEXT` behind it")
			flags.Duration("every", time.Second, "again after each `DURATION`, such as 2s")
			upper := flags.Bool("upper", false, "in upper case")
			flags.BoolVar(upper, "u", false, "short for --upper")
			return func(_ context.Context, s command.Streams) error {
				text, err := io.ReadAll(s.In)
				if *upper {
					text = []byte(strings.ToUpper(string(text)))
				}
				fmt.Fprintf(s.Out, "%s%s%s", *prefix, text, *suffix)
				fmt.Fprintf(s.Err, "%d bytes\n", len(text))
				return err
			}
		},
	}
}

// breakCommand returns an error, with --usage a UsageError.
func breakCommand() command.Command {
	return command.Command{
		Name: "breaking", Summary: "fail", Help: "Fail.",
		Setup: func(flags *flag.FlagSet) func(context.Context, command.Streams) error {
			usage := flags.Bool("usage", false, "blame the command line")
			return func(context.Context, command.Streams) error {
				if *usage {
					return fmt.Errorf("judge the flags: %w", command.UsageError("leave --usage out"))
				}
				return errors.Join(errors.New("read it: no"), errors.New("close it: no"))
			}
		},
	}
}

const (
	toolHelp = `tool is for
tests.

Usage:
  tool COMMAND [flags]

Commands:
  copy      give the input back
  breaking  fail
  wait      stay until the end
  version   print the version

Exit codes:
0 and others.
`
	copyHelp = `Copy it.

Example:
  tool copy -u

Usage:
  tool copy [flags]

Flags:
  --every DURATION
        again after each DURATION, such as 2s (default 1s)
  --prefix TEXT
        put TEXT before it (default > )
  --suffix TEXT
        put TEXT behind it
  -u
        short for --upper
  --upper
        in upper case
`
	versionHelp = `Print the version, the commit it was built from and the Go release.

Usage:
  tool version [flags]
`
)

// TestExecute compares the whole output of command lines.
func TestExecute(t *testing.T) {
	t.Parallel()
	type outcome struct {
		Code     int
		Out, Err string
	}
	version := outcome{command.OK, "tool " + command.Version() + "\n", ""}
	for line, want := range map[string]outcome{
		"":                              {command.Usage, "", toolHelp},
		"help":                          {command.OK, toolHelp, ""},
		"-h":                            {command.OK, toolHelp, ""},
		"-help":                         {command.OK, toolHelp, ""},
		"--help":                        {command.OK, toolHelp, ""},
		"help --help":                   {command.OK, toolHelp, ""}, // once recursed without end
		"--help -h copy":                {command.OK, toolHelp, ""},
		"help copy":                     {command.OK, copyHelp, ""},
		"--help copy":                   {command.OK, copyHelp, ""},
		"copy --help":                   {command.OK, copyHelp, ""},
		"copy -h":                       {command.OK, copyHelp, ""},
		"copy --upper --help --suffix":  {command.OK, copyHelp, ""},
		"help paste":                    {command.Usage, "", "tool: unknown command \"paste\"; see tool --help\n"},
		"paste":                         {command.Usage, "", "tool: unknown command \"paste\"; see tool --help\n"},
		"--upper copy":                  {command.Usage, "", "tool: unknown command \"--upper\"; see tool --help\n"},
		"copy":                          {command.OK, "> text", "4 bytes\n"},
		"copy -u --prefix=+ --suffix .": {command.OK, "+TEXT.", "4 bytes\n"},
		"copy --lower":                  {command.Usage, "", "tool copy: unknown flag --lower; see tool copy --help\n"},
		"copy -l":                       {command.Usage, "", "tool copy: unknown flag -l; see tool copy --help\n"},
		"copy --suffix":                 {command.Usage, "", "tool copy: --suffix needs a value: TEXT (put TEXT behind it); see tool copy --help\n"},
		"copy --every=abc":              {command.Usage, "", "tool copy: --every takes DURATION (again after each DURATION, such as 2s), got \"abc\"; see tool copy --help\n"},
		"copy --suffix=":                {command.Usage, "", "tool copy: --suffix is empty: give a value or remove the flag; see tool copy --help\n"},
		"copy --upper=2":                {command.Usage, "", "tool copy: --upper takes no value, or true or false, got \"2\"; see tool copy --help\n"},
		"copy this":                     {command.Usage, "", "tool copy: takes no argument, got \"this\"; see tool copy --help\n"},
		"copy -- --upper":               {command.Usage, "", "tool copy: takes no argument, got \"--upper\"; see tool copy --help\n"},
		"breaking":                      {command.Failure, "", "tool breaking: read it: no\nclose it: no\n"},
		"breaking --usage":              {command.Usage, "", "tool breaking: judge the flags: leave --usage out; see tool breaking --help\n"},
		"version":                       version,
		"--version":                     version,
		"-version":                      version,
		"help version":                  {command.OK, versionHelp, ""},
		"help --version":                version,
		"version now":                   {command.Usage, "", "tool version: takes no argument, got \"now\"; see tool version --help\n"},
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			var out, err strings.Builder
			code := tool().Execute(t.Context(), strings.Fields(line), command.Streams{In: strings.NewReader("text"), Out: &out, Err: &err})
			if diff := cmp.Diff(want, outcome{code, out.String(), err.String()}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
