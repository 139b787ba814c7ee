// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
)

func TestCommandLine(t *testing.T) {
	t.Parallel()
	nobody := filepath.Join(t.TempDir(), "none.sock")
	for name, tt := range map[string]struct {
		args     []string
		code     int
		out, err string // what each stream has to contain; "" wants it empty
	}{
		"nothing":            {nil, exitUsage, "", "Commands:"},
		"help":               {[]string{"--help"}, exitOK, "Commands:", ""},
		"help of a command":  {[]string{"run", "--help"}, exitOK, "--config FILE", ""},
		"help, command":      {[]string{"help", "status"}, exitOK, "Examples:", ""},
		"unknown command":    {[]string{"start"}, exitUsage, "", `unknown command "start"`},
		"unknown flag":       {[]string{"run", "--port", "1"}, exitUsage, "", "unknown flag --port; see http01-proxyd run --help"},
		"argument":           {[]string{"version", "x"}, exitUsage, "", `got "x"`},
		"version":            {[]string{"version"}, exitOK, "http01-proxyd ", ""},
		"version flag":       {[]string{"--version"}, exitOK, "http01-proxyd ", ""},
		"status, no service": {[]string{"status", "--status-socket", nobody}, exitFailure, "", "is it running"},
		"status, format":     {[]string{"status", "-o", "yaml"}, exitUsage, "", "use text or json"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out, err strings.Builder
			if code := execute(t.Context(), tt.args, &out, &err); code != tt.code {
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

// TestEveryCommandExplainsItself: help is how an admin meets a flag.
func TestEveryCommandExplainsItself(t *testing.T) {
	t.Parallel()
	for _, c := range commands() {
		var out, err strings.Builder
		if code := execute(t.Context(), []string{c.name, "--help"}, &out, &err); code != exitOK || err.String() != "" {
			t.Errorf("%s --help: exit code %d, %s", c.name, code, err.String())
		}
		for _, line := range strings.Split(out.String(), "\n") {
			if len(line) > 120 && !strings.HasPrefix(line, "  --") {
				t.Errorf("%s --help: a line of %d characters", c.name, len(line))
			}
		}
	}
}

func TestVersionNamesTheCommitOnce(t *testing.T) {
	t.Parallel()
	const revision = "0123456789abcdef0123456789abcdef01234567"
	built := func(version string, settings ...debug.BuildSetting) *debug.BuildInfo {
		return &debug.BuildInfo{GoVersion: "go1.26.0", Main: debug.Module{Version: version}, Settings: settings}
	}
	vcs := []debug.BuildSetting{{Key: "vcs.revision", Value: revision}, {Key: "vcs.modified", Value: "true"}}
	for want, info := range map[string]*debug.BuildInfo{
		"(devel) go1.26.0": built(""),
		"v1.2.3 commit 0123456789ab with changes go1.26.0":    built("v1.2.3", vcs...),
		"v1.2.4-0.20260102030405-0123456789ab+dirty go1.26.0": built("v1.2.4-0.20260102030405-0123456789ab+dirty", vcs...),
	} {
		if got := describe(info); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestPathsBecomeAbsolute(t *testing.T) {
	t.Chdir(t.TempDir())
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	relative, whole := "etc/../config.yaml", "/etc/config.yaml"
	if err := absolute(&relative, &whole); err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(here, "config.yaml"); relative != want || whole != "/etc/config.yaml" {
		t.Errorf("got %s and %s, want %s and the other unchanged", relative, whole, want)
	}
}
