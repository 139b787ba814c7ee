// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/build/internal/program"
)

func TestCommandLine(t *testing.T) {
	t.Parallel()
	empty := t.TempDir()
	for name, tt := range map[string]struct {
		args     []string
		code     int
		out, err string // what each stream has to contain; "" requires it empty
	}{
		"help":      {[]string{"--help"}, program.OK, "--image REFERENCE", ""},
		"no binary": {[]string{"--binaries", empty}, program.Failure, "", "no binary found in " + empty + "; run make binaries"},
		"unknown":   {[]string{"--format", "spdx"}, program.Usage, "", "unknown flag --format"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out, err strings.Builder
			if code := sbomProgram().Execute(t.Context(), tt.args, &out, &err); code != tt.code {
				t.Errorf("exit code %d, want %d", code, tt.code)
			}
			for stream, s := range map[string]struct{ got, want string }{"stdout": {out.String(), tt.out}, "stderr": {err.String(), tt.err}} {
				if (s.want == "") != (s.got == "") || !strings.Contains(s.got, s.want) {
					t.Errorf("%s is %q, want it to contain %q", stream, s.got, s.want)
				}
			}
		})
	}
}
