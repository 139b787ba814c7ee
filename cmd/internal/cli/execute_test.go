// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/http01-proxyd/http01-proxyd/cmd/internal/cli"
)

// tool has a command of each kind.
func tool() *cobra.Command {
	return cli.Root(&cobra.Command{Use: "tool", Long: "tool is for\ntests."},
		cli.Group{Title: "Work", Commands: []*cobra.Command{copyCommand(), breakCommand(), secretCommand(), waitCommand()}})
}

// copyCommand has flags of all kinds, and reads and writes.
func copyCommand() *cobra.Command {
	var prefix, suffix, format, file string
	var upper bool
	c := &cobra.Command{
		Use: "copy", Short: "return the input", Long: "Copy it.", Example: "  tool copy -u",
		RunE: func(c *cobra.Command, _ []string) error {
			text, err := io.ReadAll(c.InOrStdin())
			if upper {
				text = []byte(strings.ToUpper(string(text)))
			}
			fmt.Fprintf(c.OutOrStdout(), "%s%s%s", prefix, text, suffix)
			fmt.Fprintf(c.ErrOrStderr(), "%d bytes\n", len(text))
			return err
		},
	}
	c.Flags().StringVar(&prefix, "prefix", "> ", "put `TEXT` before it")
	c.Flags().StringVar(&suffix, "suffix", "", "put `SUFFIX` behind it")
	c.Flags().StringVar(&file, "file", "/etc/file", "any `FILE`")
	c.Flags().Duration("every", time.Second, "repeat after each `DURATION`, such as 2s")
	c.Flags().BoolVarP(&upper, "upper", "u", false, "in upper case")
	cli.OutputFlag(c, &format, cli.Text, cli.JSON, cli.YAML)
	return c
}

// breakCommand returns an error, with --usage a UsageError, with --code an exit code.
func breakCommand() *cobra.Command {
	c := &cobra.Command{Use: "breaking", Short: "fail", Long: "Fail."}
	usage := c.Flags().Bool("usage", false, "reject the command line")
	code := c.Flags().Bool("code", false, "return the code of an unhealthy state")
	c.MarkFlagsMutuallyExclusive("usage", "code")
	var format string
	cli.OutputFlag(c, &format, cli.Text, cli.JSON, cli.YAML)
	c.RunE = func(*cobra.Command, []string) error {
		switch {
		case *usage:
			return fmt.Errorf("judge the flags: %w", cli.UsageError("remove --usage"))
		case *code:
			return cli.ExitCode(cli.Unhealthy)
		}
		return errors.Join(errors.New("read it: no"), errors.New("close it: no"))
	}
	return c
}

func secretCommand() *cobra.Command {
	return &cobra.Command{
		Use: "secret", Short: "internal", Long: "Internal.", Hidden: true,
		RunE: func(*cobra.Command, []string) error { return nil },
	}
}

const (
	toolHelp = `tool is for
tests.

Usage:
  tool [flags]
  tool [command]

Work:
  breaking    fail
  copy        return the input
  wait        stay until the end

Other commands:
  completion  Generate the autocompletion script for the specified shell
  help        Help about any command
  version     print the version

Flags:
  -h, --help      print this help
      --version   print the version

Use "tool [command] --help" for more information about a command.

` + cli.ExitCodes + "\n"
	copyHelp = `Copy it.

Usage:
  tool copy [flags]

Examples:
  tool copy -u

Flags:
      --every DURATION   repeat after each DURATION, such as 2s (default 1s)
      --file FILE        any FILE (default "/etc/file")
  -h, --help             print this help
  -o, --output FORMAT    format of the output: text, json or yaml (default text)
      --prefix TEXT      put TEXT before it (default "> ")
      --suffix SUFFIX    put SUFFIX behind it
  -u, --upper            in upper case
`
	jsonError = `{
  "apiVersion": "http01-proxyd.github.io/v1alpha1",
  "kind": "Error",
  "command": "tool copy",
  "message": "unknown flag: --lower",
  "exitCode": 2,
  "help": "tool copy --help"
}
`
	yamlError = `apiVersion: http01-proxyd.github.io/v1alpha1
kind: Error
command: tool breaking
message: |-
  read it: no
  close it: no
exitCode: 1
`
)

// TestExecute compares the whole output of command lines.
func TestExecute(t *testing.T) {
	t.Parallel()
	type outcome struct {
		Code     int
		Out, Err string
	}
	usage := func(message string) outcome { return outcome{cli.Usage, "", message + "\n"} }
	version := outcome{cli.OK, "tool " + cli.Version() + "\n", ""}
	for line, want := range map[string]outcome{
		"":            {cli.Usage, "", toolHelp},
		"help":        {cli.OK, toolHelp, ""},
		"-h":          {cli.OK, toolHelp, ""},
		"--help":      {cli.OK, toolHelp, ""},
		"help copy":   {cli.OK, copyHelp, ""},
		"copy --help": {cli.OK, copyHelp, ""},
		"copy -h":     {cli.OK, copyHelp, ""},
		"help secret": {
			cli.OK,
			"Internal.\n\nUsage:\n  tool secret [flags]\n\nFlags:\n  -h, --help   print this help\n", "",
		},
		"help paste":                    {cli.OK, toolHelp, ""},
		"paste":                         usage(`tool: unknown command "paste"; see tool --help`),
		"coyp":                          usage(`tool: unknown command "coyp": did you mean copy? See tool --help`),
		"--upper copy":                  usage("tool: unknown flag: --upper; see tool --help"),
		"copy":                          {cli.OK, "> text", "4 bytes\n"},
		"copy -u --prefix=+ --suffix .": {cli.OK, "+TEXT.", "4 bytes\n"},
		"copy --lower":                  usage("tool copy: unknown flag: --lower; see tool copy --help"),
		"copy -ojson --lower":           {cli.Usage, "", jsonError},
		"copy --prefx=+":                usage("tool copy: unknown flag: --prefx: did you mean --prefix? See tool copy --help"),
		"copy -l":                       usage("tool copy: unknown shorthand flag: 'l' in -l; see tool copy --help"),
		"copy --suffix":                 usage("tool copy: flag needs an argument: --suffix; see tool copy --help"),
		"copy --every=abc": usage(
			`tool copy: invalid argument "abc" for "--every" flag: use a number with a unit, such as 30s or 2m; see tool copy --help`),
		"copy --suffix=": usage(
			"tool copy: --suffix is empty: give a value or remove the flag; see tool copy --help"),
		"copy --upper=2": usage(
			`tool copy: invalid argument "2" for "--upper" flag: use true or false; see tool copy --help`),
		"copy -o toml": usage(
			`tool copy: invalid argument "toml" for "-o, --output" flag: use text, json or yaml; see tool copy --help`),
		"copy this":              usage(`tool copy: unexpected argument "this"; see tool copy --help`),
		"copy -- --upper":        usage(`tool copy: unexpected argument "--upper"; see tool copy --help`),
		"breaking":               {cli.Failure, "", "tool breaking: read it: no\nclose it: no\n"},
		"breaking --output=yaml": {cli.Failure, "", yamlError},
		"breaking --usage":       usage("tool breaking: judge the flags: remove --usage; see tool breaking --help"),
		"breaking --code":        {cli.Unhealthy, "", ""},
		"breaking --code --usage": usage(
			"tool breaking: if any flags in the group [usage code] are set none of the others can be; [code usage] were all " +
				"set; see tool breaking --help"),
		"secret":      {cli.OK, "", ""},
		"version":     version,
		"--version":   version,
		"version now": usage(`tool version: unexpected argument "now"; see tool version --help`),
		"__complete c": {
			cli.OK,
			"completion\tGenerate the autocompletion script for the specified shell\ncopy\treturn the input\n:4\n",
			"Completion ended with directive: ShellCompDirectiveNoFileComp\n",
		},
		"__complete copy -o j": {
			cli.OK, "text\njson\nyaml\n:4\n",
			"Completion ended with directive: ShellCompDirectiveNoFileComp\n",
		},
		"__complete copy --file x": {cli.OK, ":0\n", "Completion ended with directive: ShellCompDirectiveDefault\n"},
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			var out, err strings.Builder
			code := cli.Execute(t.Context(), tool(), strings.Fields(line), cli.Streams{
				In: strings.NewReader("text"), Out: &out,
				Err: &err,
			})
			if diff := cmp.Diff(want, outcome{code, out.String(), err.String()}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
