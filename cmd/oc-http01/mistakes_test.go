// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// ocOfMistakes is the oc of the examples. It runs the plugin, and otherwise prints what oc prints with
// an expired login, a wrong kubeconfig or context, an API that does not respond, or an unknown node.
const ocOfMistakes = `#!/bin/sh
fail() { echo "$*" >&2; exit 1; }
case "$*" in
"http01 "*) shift; exec oc-http01 "$@" ;;
*--context=expired*) fail "error: You must be logged in to the server (Unauthorized)" ;;
*--context=developer*) fail 'Error from server (Forbidden): nodes is forbidden: User "ann" cannot list resource "nodes" in API group "" at the cluster scope' ;;
*--context=*) fail "error: context \"elsewhere\" does not exist" ;;
*--kubeconfig=*) fail "error: stat absent.yaml: no such file or directory" ;;
*master9*) fail 'Error from server (NotFound): nodes "master9" not found' ;;
*) fail "Unable to connect to the server: dial tcp 192.0.2.5:6443: connect: no route to host" ;;
esac
`

// TestMistakes: each command of docs/internals/mistakes.md prints what the document has, and ends with
// the same exit code. A … in the document stands for any text. The document leaves out the end of a
// message about the command line, which names the help.
func TestMistakes(t *testing.T) {
	t.Parallel()
	document := string(must1(os.ReadFile("../../docs/internals/mistakes.md"))(t))
	bin := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", bin+"/", ".", "../http01-proxyd")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	must(t, os.WriteFile(filepath.Join(bin, "oc"), []byte(ocOfMistakes), 0o700))
	block := regexp.MustCompile("(?ms)^## ([^\n]+)\n\nExit code (\\d):\n\n```console\n(.*?)^```$")
	examples := block.FindAllStringSubmatch(document, -1)
	if n := strings.Count(document, "\n$ "); n < 25 || len(examples) != strings.Count(document, "\n## ") {
		t.Errorf("%d commands in %d blocks", n, len(examples))
	}
	for _, e := range examples {
		t.Run(e[1], func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for _, call := range strings.Split("\n"+e[3], "\n$ ")[1:] {
				line, want, _ := strings.Cut(call, "\n")
				form := "^$" // the line prepares a mistake
				if want != "" {
					form = formOf(strings.TrimRight(want, "\n"), e[2])
				}
				if got := runInShell(t, line, dir, bin); !regexp.MustCompile(form).MatchString(got) {
					t.Errorf("$ %s\ngot:\n%s\nwant:\n%s", line, got, form)
				}
			}
		})
	}
}

// runInShell returns the output of a command line, followed by its exit code unless that is 0.
func runInShell(t *testing.T, line, dir, bin string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), "sh", "-c", line)
	c.Dir = dir
	c.Env = []string{"PATH=" + bin + ":/usr/bin:/bin", "HOME=" + dir}
	out, err := c.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		out = append(out, "exit code "+strconv.Itoa(exit.ExitCode())...)
	case err != nil:
		t.Fatal(err)
	}
	return strings.TrimRight(string(out), "\n")
}

// formOf returns the form of an output that the document shows, with its exit code.
func formOf(shown, exitCode string) string {
	form := strings.ReplaceAll(regexp.QuoteMeta(shown), "…", ".*")
	if exitCode == "2" {
		form += "(?: See|; see) .* --help"
	}
	return "(?s)^" + form + "\nexit code " + exitCode + "$"
}
