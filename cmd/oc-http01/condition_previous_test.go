// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// asProgram makes the test binary run as the program.
const asProgram = "OC_HTTP01"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

// keeping returns the commands that store the condition in a file, in the documentation
// and in the help.
func keeping(t *testing.T) map[string]string {
	t.Helper()
	text := must1(os.ReadFile("../../docs/reference/cluster-condition.md"))(t)
	blocks := strings.Split(string(text), "```sh\n")
	if len(blocks) != 3 {
		t.Fatalf("the document has %d blocks with commands, want 2", len(blocks)-1)
	}
	block, _, _ := strings.Cut(blocks[2], "```")
	_, help, _ := strings.Cut(runLine(t, "", "condition", "--help").out, "  oc http01 condition --previous")
	help, _, _ = strings.Cut(help, "\n\n")
	return map[string]string{"documentation": block, "help": "oc http01 condition --previous" + help}
}

// TestPreviousCondition: the documented commands store only what was printed, over
// several runs.
func TestPreviousCondition(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	self := must1(os.Executable())(t)
	must(t, os.Symlink(self, filepath.Join(bin, "oc-http01")))
	// oc runs the plugin of a verb that it does not have itself.
	must(t, os.WriteFile(filepath.Join(bin, "oc"), []byte("#!/bin/sh\nverb=$1\nshift\nexec \"oc-$verb\" \"$@\"\n"), 0o700))
	for name, commands := range keeping(t) {
		dir := t.TempDir()
		write := func(file, text string) {
			must(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
		}
		run := func() error {
			cmd := exec.CommandContext(t.Context(), "sh", "-c", commands)
			cmd.Dir, cmd.Env = dir, append(os.Environ(), asProgram+"=1", "PATH="+bin+":"+os.Getenv("PATH"))
			return cmd.Run()
		}
		kept := func() string {
			return string(must1(os.ReadFile(filepath.Join(dir, "condition.json")))(t))
		}
		serving := holderReport(time.Now())
		standby := strings.Replace(strings.Replace(serving, "Serving", "Standby", 1), "Held", "Standby", 1)
		write("status-master1.json", standby)
		write("status-master2.json", standby)
		for _, step := range []struct{ master0, want string }{
			{serving, `"True"`}, {standby, `"False"`}, {"", `"Unknown"`}, {serving, `"True"`},
		} {
			write("status-master0.json", step.master0)
			if err := run(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if got := kept(); !strings.Contains(got, `"status": `+step.want) {
				t.Errorf("%s: it is %s, want %s", name, got, step.want)
			}
		}
		for _, wrong := range []string{"", "hello"} { // what others have left there
			write("condition.json", wrong)
			if err := run(); err == nil || kept() != wrong {
				t.Errorf("%s: of %q it makes %q, %v", name, wrong, kept(), err)
			}
		}
	}
}
