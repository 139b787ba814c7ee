// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"slices"
)

// scheduler runs as many processes as there are slots, the longest first. Fuzzers have
// separate slots at a low priority. One goroutine uses it.
type scheduler struct {
	slots  int
	runner *runner
	report *report

	queue, fuzzers []*process
	taken          int // slots of running processes, without fuzzers
	fuzzing        int
	results        chan result
}

// batch has the processes of one module, or the error that prevented them.
type batch struct {
	processes []*process
	err       error
}

// run compiles one module after the other and runs compiled tests at the same time. After
// ctx has ended it starts nothing and waits for running processes.
func (s *scheduler) run(ctx context.Context, o options) error {
	compileCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	compiled := compileAll(compileCtx, o)
	var failed error
	for {
		s.fill(ctx)
		if compiled == nil && s.taken == 0 && s.fuzzing == 0 {
			return failed
		}
		select {
		case b, more := <-compiled:
			if !more {
				compiled = nil
			}
			failed = errors.Join(failed, b.err)
			s.add(b.processes)
		case res := <-s.results:
			s.ended(res)
		}
	}
}

// fill starts processes while slots are free.
func (s *scheduler) fill(ctx context.Context) {
	start := func(p *process) {
		go func() { s.results <- s.runner.run(ctx, p) }()
	}
	// Shorter processes must not overtake one that needs several slots.
	for ctx.Err() == nil && len(s.queue) > 0 && (s.taken == 0 || s.taken+s.queue[0].slots <= s.slots) {
		start(s.queue[0])
		s.taken += s.queue[0].slots
		s.queue = s.queue[1:]
	}
	for ctx.Err() == nil && len(s.fuzzers) > 0 && s.fuzzing < runtime.NumCPU() {
		start(s.fuzzers[0])
		s.fuzzers = s.fuzzers[1:]
		s.fuzzing++
	}
}

func (s *scheduler) add(processes []*process) {
	for _, p := range processes {
		s.report.expect(p)
		if p.command != nil {
			s.fuzzers = append(s.fuzzers, p)
		} else {
			s.queue = append(s.queue, p)
		}
	}
	slices.SortStableFunc(s.queue, func(a, b *process) int { return cmp.Compare(b.weight, a.weight) })
}

func (s *scheduler) ended(res result) {
	if res.process.command != nil {
		s.fuzzing--
	} else {
		s.taken -= res.process.slots
	}
	s.report.add(res)
}

// compileAll sends the processes of each module when its tests are compiled, then the fuzzers'
// processes, and then closes the channel.
func compileAll(ctx context.Context, o options) <-chan batch {
	compiled := make(chan batch)
	go func() {
		defer close(compiled)
		send := func(processes []*process, err error) {
			select {
			case compiled <- batch{processes, err}:
			case <-ctx.Done():
			}
		}
		for _, m := range modules() {
			send(prepare(ctx, o, m))
		}
		if o.fuzz {
			send(prepareFuzzers(ctx, o))
		}
	}()
	return compiled
}

// prepare lists and compiles the selected tests of a module.
func prepare(ctx context.Context, o options, m module) ([]*process, error) {
	if m.onlyAll && o.set != setAll {
		return nil, nil
	}
	packs, err := list(ctx, o.root, m)
	if err != nil {
		return nil, err
	}
	suites := table()
	tests := map[*testPackage][]string{}
	for _, p := range packs {
		if !o.selects(p.dir) {
			continue
		}
		names, err := suites[p.dir].selectTests(p, o.set)
		if err != nil {
			return nil, err
		}
		if len(names) > 0 {
			tests[p] = names
		}
	}
	packs = slices.DeleteFunc(packs, func(p *testPackage) bool { return tests[p] == nil })
	name := m.dir
	if name == "." {
		name = "root"
	}
	binaries, err := compile(ctx, o.root, filepath.Join(o.bin, name), m, packs, o.flags(m))
	if err != nil {
		return nil, err
	}
	var all []*process
	for _, p := range packs {
		all = append(all, suites[p.dir].plan(p, tests[p], binaries[p])...)
	}
	return all, nil
}

// prepareFuzzers compiles the selected fuzzers, which are in the service's module.
func prepareFuzzers(ctx context.Context, o options) ([]*process, error) {
	chosen := slices.DeleteFunc(fuzzers(), func(f fuzzer) bool { return !o.selects(f.dir) })
	if len(chosen) == 0 {
		return nil, nil
	}
	m := module{dir: "."}
	packs, err := list(ctx, o.root, m)
	if err != nil {
		return nil, err
	}
	packs = slices.DeleteFunc(packs, func(p *testPackage) bool {
		return !slices.ContainsFunc(chosen, func(f fuzzer) bool { return f.dir == p.dir })
	})
	binaries, err := compile(ctx, o.root, filepath.Join(o.bin, "fuzz"), m, packs, fuzzFlags())
	if err != nil {
		return nil, err
	}
	var all []*process
	for _, f := range chosen {
		for _, p := range packs {
			if p.dir == f.dir {
				all = append(all, f.process(p, binaries[p], filepath.Join(o.root, ".cache", "fuzz")))
			}
		}
	}
	return all, nil
}
