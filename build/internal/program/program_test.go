// SPDX-License-Identifier: Apache-2.0

package program_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/build/internal/program"
)

func TestExecute(t *testing.T) {
	t.Parallel()
	tool := program.Program{
		Name: "tool",
		Help: "Do it.\n\nExample:\n  tool --out x",
		Setup: func(set *flag.FlagSet) program.Run {
			dir := set.String("out", "dist", "write to `DIR`")
			return func(_ context.Context, out, notes io.Writer) error {
				if *dir == "full" {
					return errors.New("write to full: no space")
				}
				fmt.Fprintln(notes, "tool: writing")
				fmt.Fprintln(out, "wrote", *dir)
				return nil
			}
		},
	}
	for name, tt := range map[string]struct {
		args     []string
		code     int
		out, err string
	}{
		"defaults":  {nil, program.OK, "wrote dist\n", "tool: writing\n"},
		"a flag":    {[]string{"--out", "x"}, program.OK, "wrote x\n", "tool: writing\n"},
		"a failure": {[]string{"--out", "full"}, program.Failure, "", "tool: write to full: no space\n"},
		"unknown flag": {
			[]string{"--in", "x"},
			program.Usage, "",
			"tool: unknown flag --in; in build/, see go run ./cmd/tool --help\n",
		},
		"an argument": {
			[]string{"x"},
			program.Usage, "",
			"tool: takes no argument, got \"x\"; in build/, see go run ./cmd/tool --help\n",
		},
		"help": {[]string{"--help"}, program.OK, `Do it.

Example:
  tool --out x

Usage, in build/:
  go run ./cmd/tool [flags]

Flags:
  --out DIR
        write to DIR (default dist)

Exit codes: 0 done, 1 failed, 2 the command line is wrong.
`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out, err strings.Builder
			if code := tool.Execute(t.Context(), tt.args, &out, &err); code != tt.code {
				t.Errorf("exit code %d, want %d", code, tt.code)
			}
			if out.String() != tt.out || err.String() != tt.err {
				t.Errorf("stdout %q, stderr %q; want %q and %q", out.String(), err.String(), tt.out, tt.err)
			}
		})
	}
}
