// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"bufio"
	"io"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// build compiles the program in testdata/goroutines.
func build(t *testing.T, flags ...string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "goroutines")
	command := exec.CommandContext(t.Context(), "go", append(append([]string{"build", "-o", program}, flags...), "./testdata/goroutines")...)
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("build the program: %v\n%s", err, out)
	}
	return program
}

// TestGoroutines compares with the count of the program itself, while the number rises and
// falls: the runtime keeps goroutines that have ended in its list.
func TestGoroutines(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"exe", "pie"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			program := build(t, "-buildmode="+mode)
			counter, err := OpenGoroutines(program)
			if err != nil {
				t.Fatal(err)
			}
			command := exec.CommandContext(t.Context(), program)
			in, inErr := command.StdinPipe()
			out, outErr := command.StdoutPipe()
			if inErr != nil || outErr != nil {
				t.Fatal(inErr, outErr)
			}
			if err := command.Start(); err != nil {
				t.Fatal(err)
			}
			answers := bufio.NewScanner(out)
			ask := func(line string) string {
				_, _ = io.WriteString(in, line+"\n")
				if !answers.Scan() {
					t.Fatalf("the program has ended: %v", answers.Err())
				}
				return answers.Text()
			}
			for _, n := range []int{0, 3, 1000, 7, 0} {
				want := strconv.Itoa(n + 1) // and main
				if reported := ask(strconv.Itoa(n)); reported != want {
					t.Errorf("the program has %s goroutines, want %s", reported, want)
				}
				if got, err := counter.Count(command.Process.Pid); err != nil || strconv.Itoa(got) != want {
					t.Errorf("counted %d, %v, want %s", got, err, want)
				}
				ask("end")
			}
			_ = in.Close()
			if err := command.Wait(); err != nil {
				t.Error(err)
			}
			if got, err := counter.Count(command.Process.Pid); err == nil {
				t.Errorf("a process that has exited has %d goroutines", got)
			}
		})
	}
}

func TestGoroutinesOfStrippedBinary(t *testing.T) {
	t.Parallel()
	_, err := OpenGoroutines(build(t, "-ldflags=-s -w"))
	if err == nil || !strings.Contains(err.Error(), "-ldflags '-s -w'") {
		t.Errorf("no remediation: %v", err)
	}
}
