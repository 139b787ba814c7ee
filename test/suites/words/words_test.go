// SPDX-License-Identifier: Apache-2.0

package words

import (
	"bytes"
	"flag"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const repository = "../../.."

// folder narrows the list to a part of the repository:
// go test ./suites/words -folder pkg/host
var folder = flag.String("folder", "", "print the hits of this folder only")

// A rule is one file of .vale/http01: the keys of swap, or the tokens.
type rule struct {
	Message string            `yaml:"message"`
	Swap    map[string]string `yaml:"swap"`
	Tokens  []string          `yaml:"tokens"`
}

// A word is a forbidden expression with the advice for it.
type word struct {
	expression *regexp.Regexp
	advice     string
}

// TestWords: no comment, string literal, script, unit file or YAML file uses a word of
// the list.
func TestWords(t *testing.T) {
	list := words(t)
	files := tracked(t)
	checked := 0
	for _, file := range files {
		if !strings.HasPrefix(file, *folder) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(repository, file))
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(file, ".go") {
			for _, part := range proseOf(t, text) {
				report(t, list, file, part.line, part.text)
			}
			checked++
		} else if readByOperators(file, text) {
			report(t, list, file, 1, string(text))
			checked++
		}
	}
	if checked == 0 {
		t.Fatalf("no file below %q", *folder)
	}
}

func report(t *testing.T, list []word, file string, line int, text string) {
	t.Helper()
	for _, w := range list {
		for _, at := range w.expression.FindAllStringIndex(text, -1) {
			t.Errorf("%s:%d: %q: %s", file, line+strings.Count(text[:at[0]], "\n"), text[at[0]:at[1]], w.advice)
		}
	}
}

// words are the rules of .vale/http01 as expressions that match whole words.
func words(t *testing.T) []word {
	t.Helper()
	files, err := filepath.Glob(repository + "/.vale/http01/*.yml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no rule found: %v", err)
	}
	var list []word
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var r rule
		if err := yaml.Unmarshal(text, &r); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for expression, advice := range r.Swap {
			list = append(list, word{compile(t, expression), "use " + advice})
		}
		for _, expression := range r.Tokens {
			list = append(list, word{compile(t, expression), "rewrite: actor, verb, object"})
		}
	}
	return list
}

func compile(t *testing.T, expression string) *regexp.Regexp {
	t.Helper()
	compiled, err := regexp.Compile(`(?i)\b(?:` + expression + `)\b`)
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

// A part is a comment or the value of a string literal.
type part struct {
	line int
	text string
}

func proseOf(t *testing.T, source []byte) []part {
	t.Helper()
	files := token.NewFileSet()
	file := files.AddFile("", files.Base(), len(source))
	var s scanner.Scanner
	s.Init(file, source, nil, scanner.ScanComments)
	var parts []part
	for {
		pos, kind, literal := s.Scan()
		switch kind {
		case token.EOF:
			return parts
		case token.COMMENT:
			parts = append(parts, part{file.Line(pos), literal})
		case token.STRING:
			value, err := strconv.Unquote(literal)
			if err != nil {
				t.Fatal(err)
			}
			parts = append(parts, part{file.Line(pos), value})
		default:
		}
	}
}

// readByOperators reports a script, a unit file, or a manifest, alert, dashboard or
// example; not the word list itself.
func readByOperators(file string, text []byte) bool {
	switch filepath.Ext(file) {
	case ".service", ".timer", ".bu", ".sh", ".yaml", ".json", ".prom", ".spec", ".mk":
		return true
	case ".yml":
		return !strings.HasPrefix(file, ".vale/")
	}
	return filepath.Base(file) == "Makefile" || bytes.HasPrefix(text, []byte("#!"))
}

// tracked are the repository's files, relative to its root.
func tracked(t *testing.T) []string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "git", "ls-files", "-z")
	command.Dir = repository
	output, err := command.Output()
	if err != nil {
		t.Fatalf("git ls-files: %v", err)
	}
	return slices.DeleteFunc(strings.Split(string(output), "\x00"), func(file string) bool {
		info, err := os.Lstat(filepath.Join(repository, file))
		return file == "" || err != nil || info.Mode()&fs.ModeType != 0
	})
}
