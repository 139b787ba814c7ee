// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	defaultTimeout = 10 * time.Minute
	// fuzzTimeout bounds a fuzzer, which has a low priority.
	fuzzTimeout = 30 * time.Minute
	// defaultSeconds is the assumed duration of a test that the table does not list.
	defaultSeconds = 2
)

// testPackage is a Go package with tests.
type testPackage struct {
	module module
	dir    string // from the repository's root
	path   string // import path
	tests  []string
	index  int // number of packages before it in the module with the same last element of the path
}

// process is one run of a test program with some tests of its package.
type process struct {
	pack    *testPackage
	binary  string
	tests   []string
	weight  int // expected seconds
	timeout time.Duration
	slots   int
	group   int      // number of processes that share the tests of the package
	command []string // replaces the test program for a fuzzer
}

// name returns the name for messages.
func (p *process) name() string {
	if p.command != nil {
		return p.pack.dir + " " + p.tests[0]
	}
	return p.pack.dir
}

// list finds the packages of a module that have tests.
func list(ctx context.Context, root string, m module, flags ...string) ([]*testPackage, error) {
	args := append([]string{"list", "-json=Dir,ImportPath,TestGoFiles,XTestGoFiles"}, flags...)
	cmd := goCommand(ctx, root, m, append(args, "./...")...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list the packages of module %s: %w\n%s", m.dir, err, stderr.String())
	}
	var all []*testPackage
	names := map[string]int{}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var found struct {
			Dir, ImportPath           string
			TestGoFiles, XTestGoFiles []string
		}
		if err := decoder.Decode(&found); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("list the packages of module %s: %w", m.dir, err)
		}
		dir, err := filepath.Rel(root, found.Dir)
		if err != nil {
			return nil, fmt.Errorf("list the packages of module %s: %w", m.dir, err)
		}
		p := &testPackage{module: m, dir: dir, path: found.ImportPath, index: names[filepath.Base(found.ImportPath)]}
		names[filepath.Base(found.ImportPath)]++
		for _, file := range slices.Concat(found.TestGoFiles, found.XTestGoFiles) {
			text, err := os.ReadFile(filepath.Join(found.Dir, file))
			if err != nil {
				return nil, fmt.Errorf("find the tests of %s: %w", dir, err)
			}
			tests, err := testsIn(file, string(text))
			if err != nil {
				return nil, fmt.Errorf("find the tests of %s: %w", dir, err)
			}
			p.tests = append(p.tests, tests...)
		}
		if len(p.tests) > 0 {
			all = append(all, p)
		}
	}
}

// testsIn returns the functions of a file that `go test` runs.
func testsIn(file, text string) ([]string, error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, d := range parsed.Decls {
		f, is := d.(*ast.FuncDecl)
		if is && f.Recv == nil && testFunction.MatchString(f.Name.Name) && f.Name.Name != "TestMain" {
			names = append(names, f.Name.Name)
		}
	}
	return names, nil
}

// testFunction matches the names of test functions (go help testfunc).
var testFunction = regexp.MustCompile(`^(Test|Fuzz|Example)($|[^a-z])`)

// goCommand returns a go command in a module, whose compilers have a larger heap and
// therefore need an eighth less CPU time. An interrupted go command removes its temporary
// files; a killed one does not.
func goCommand(ctx context.Context, root string, m module, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...) //nolint:gosec // arguments of the table and of the modules
	cmd.Dir, cmd.Env = filepath.Join(root, m.dir), append(environment(m), "GOGC=400")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = cleanupTimeout
	return cmd
}

// environment returns the environment of Go commands and tests of a module.
func environment(m module) []string {
	cgo := "CGO_ENABLED=0"
	if m.race {
		cgo = "CGO_ENABLED=1"
	}
	return append(os.Environ(), cgo)
}

// selectTests returns a suite's tests in a set. It returns an error for a test in the table that
// the package lacks.
func (s suite) selectTests(p *testPackage, set string) ([]string, error) {
	named := slices.Concat(s.together, s.main, slices.Sorted(maps.Keys(s.seconds)))
	unknown := slices.DeleteFunc(named, func(name string) bool { return slices.Contains(p.tests, name) })
	if len(unknown) > 0 {
		return nil, fmt.Errorf("%s has no test %s: correct test/cmd/suites/table.go", p.dir, strings.Join(unknown, ", "))
	}
	switch {
	case set == setAll:
		return p.tests, nil
	case s.onlyAll:
		return nil, nil
	case s.main != nil:
		return s.main, nil
	default:
		return p.tests, nil
	}
}

// split distributes tests over a suite's processes, the longest first, each to the process
// with the least work.
func (s suite) split(tests []string) [][]string {
	type group struct {
		tests  []string
		weight int
	}
	var units []group
	var together group
	for _, name := range tests {
		weight := cmp.Or(s.seconds[name], defaultSeconds)
		if slices.Contains(s.together, name) {
			together.tests = append(together.tests, name)
			together.weight += weight
			continue
		}
		units = append(units, group{[]string{name}, weight})
	}
	if together.tests != nil {
		units = append(units, together)
	}
	slices.SortStableFunc(units, func(a, b group) int { return cmp.Compare(b.weight, a.weight) })
	count := max(s.processes, 1)
	if s.each {
		count = len(units)
	}
	groups := make([]group, min(count, len(units)))
	for _, u := range units {
		least := 0
		for i := range groups {
			if groups[i].weight < groups[least].weight {
				least = i
			}
		}
		groups[least].tests = append(groups[least].tests, u.tests...)
		groups[least].weight += u.weight
	}
	var all [][]string
	for _, g := range groups {
		all = append(all, g.tests)
	}
	return all
}

// plan returns the processes that run the given tests of one package.
func (s suite) plan(p *testPackage, tests []string, binary string) []*process {
	var all []*process
	groups := s.split(tests)
	for _, some := range groups {
		weight := 0
		for _, name := range some {
			weight += cmp.Or(s.seconds[name], defaultSeconds)
		}
		all = append(all, &process{
			pack: p, binary: binary, tests: some, weight: weight, timeout: cmp.Or(s.timeout, defaultTimeout),
			slots: cmp.Or(s.slots, 1), group: len(groups),
		})
	}
	return all
}

// arguments are the arguments of the test program.
func (p *process) arguments() []string {
	return []string{
		"-test.v=test2json", "-test.paniconexit0", "-test.count=1", "-test.timeout=" + p.timeout.String(),
		"-test.run=^(" + strings.Join(p.tests, "|") + ")$",
	}
}

// repositoryPattern begins the import paths of the repository's packages.
const repositoryPattern = "github.com/http01-proxyd/http01-proxyd/"

// flags returns the flags with which the tests of a module are compiled.
func (o options) flags(m module) []string {
	var flags []string
	if m.race {
		flags = append(flags, "-race")
	}
	if o.cover != "" {
		flags = append(flags, "-cover", "-covermode=atomic",
			"-coverpkg="+repositoryPattern+"pkg/...,"+repositoryPattern+"internal/...,"+repositoryPattern+"cmd/...")
	}
	return flags
}

// compile compiles the test programs of some packages of one module into dir and returns
// their paths. `go test` skips programs that are up to date.
func compile(ctx context.Context, root, dir string, m module, packs []*testPackage,
	flags []string,
) (map[*testPackage]string, error) {
	binaries := map[*testPackage]string{}
	// Programs in one directory are named after the last element of the import path.
	// Packages with the same last element go into different directories.
	for index := 0; len(binaries) < len(packs); index++ {
		into := filepath.Join(dir, strconv.Itoa(index))
		if err := os.MkdirAll(into, 0o750); err != nil {
			return nil, fmt.Errorf("make the directory of test programs: %w", err)
		}
		// golangci-lint runs vet. Tests need no symbols: tracebacks use the table of functions.
		args := append([]string{"test", "-c", "-vet=off", "-ldflags=-s -w", "-o", into + "/"}, flags...)
		known := len(binaries)
		for _, p := range packs {
			if p.index == index {
				args = append(args, p.path)
				binaries[p] = filepath.Join(into, filepath.Base(p.path)+".test")
			}
		}
		if len(binaries) == known {
			continue
		}
		if out, err := goCommand(ctx, root, m, args...).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("compile the tests of module %s: %w\n%s", m.dir, err, out)
		}
	}
	return binaries, nil
}

// fuzzFlags compile a test program that finds new inputs by the coverage of the
// repository's packages. `go test -fuzz` also instruments the standard library and all
// other modules. It compiles each of their packages again, and each input takes longer.
func fuzzFlags() []string { return []string{"-gcflags=" + repositoryPattern + "...=-d=libfuzzer"} }

// process returns the process that runs a fuzzer on one core at a low priority. Inputs that
// extend the coverage are kept in corpus. The priority is not the lowest: Go's fuzzer ends
// an input after 10 s, and at nice 19 an input that requires 0.1 s can wait that long
// beside busy tests.
func (f fuzzer) process(p *testPackage, binary, corpus string) *process {
	return &process{
		pack: p, tests: []string{f.name}, timeout: fuzzTimeout,
		command: []string{
			"nice", "-n", "10", binary, "-test.paniconexit0", "-test.run=^$", "-test.fuzz=^" + f.name + "$",
			"-test.fuzztime=" + f.count, "-test.fuzzminimizetime=10x", "-test.parallel=1",
			"-test.fuzzcachedir=" + filepath.Join(corpus, p.dir),
		},
	}
}
