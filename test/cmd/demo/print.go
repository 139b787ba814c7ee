// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"
)

// step is one step of the demonstration.
type step struct {
	title string
	// run executes the step and returns its result in one line.
	run func(context.Context) (string, error)
	// base marks a step that later steps need.
	base bool
}

// result is the result of a step.
type result struct {
	title   string
	mark    mark
	elapsed time.Duration
}

type mark int

const (
	notRun mark = iota
	good
	bad
)

type results []result

func (r results) ok() bool {
	for _, one := range r {
		if one.mark != good {
			return false
		}
	}
	return true
}

// printer prints steps as they end, with colours on a terminal only.
type printer struct {
	w        io.Writer
	terminal bool
	logs     func() string // output of the lab's programs for a failed step
}

func newPrinter(f *os.File, logs func() string) printer {
	info, err := f.Stat()
	terminal := err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
	return printer{w: f, terminal: terminal, logs: logs}
}

// show runs the steps in order and prints the table at the end.
func (p printer) show(ctx context.Context, steps []step) results {
	width := 0
	for _, s := range steps {
		width = max(width, utf8.RuneCountInString(s.title))
	}
	started := time.Now()
	all := make(results, 0, len(steps))
	broken := false
	for _, s := range steps {
		r := result{title: s.title}
		if !broken && ctx.Err() == nil {
			r = p.runStep(ctx, s, width)
		}
		broken = broken || (s.base && r.mark == bad)
		all = append(all, r)
	}
	p.table(all, width, time.Since(started))
	return all
}

// runStep runs a step and prints its line.
func (p printer) runStep(ctx context.Context, s step, width int) result {
	if p.terminal {
		fmt.Fprintf(p.w, "…           %s", s.title)
	}
	started := time.Now()
	seen, err := s.run(ctx)
	r := result{title: s.title, mark: good, elapsed: time.Since(started)}
	if err != nil {
		r.mark = bad
		seen = firstLine(err)
	}
	if p.terminal {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
	fmt.Fprintf(p.w, "%s %s  %s  %s\n", p.symbol(r.mark), seconds(r.elapsed), pad(s.title, width), seen)
	if err != nil && ctx.Err() == nil {
		fmt.Fprintln(p.w, indent(err.Error()+"\n"+p.logs()))
	}
	return r
}

func (p printer) table(all results, width int, total time.Duration) {
	rule := strings.Repeat("─", width+20)
	fmt.Fprintf(p.w, "\n%s\n", rule)
	for i, r := range all {
		elapsed := seconds(r.elapsed)
		if r.mark == notRun {
			elapsed = strings.Repeat(" ", len("000.00 s"))
		}
		fmt.Fprintf(p.w, "%2d  %s  %s  %s\n", i+1, p.symbol(r.mark), pad(r.title, width), elapsed)
	}
	fmt.Fprintf(p.w, "%s\n    %s  %s  %s\n", rule, p.symbol(overallMark(all)), pad("together", width), seconds(total))
}

func overallMark(all results) mark {
	if all.ok() {
		return good
	}
	return bad
}

func (p printer) symbol(m mark) string {
	sign, colour := "–", "33"
	switch m {
	case good:
		sign, colour = "✓", "32"
	case bad:
		sign, colour = "✗", "31"
	case notRun:
	}
	if !p.terminal {
		return sign
	}
	return "\x1b[" + colour + "m" + sign + "\x1b[0m"
}

func seconds(d time.Duration) string { return fmt.Sprintf("%6.2f s", d.Seconds()) }

func pad(s string, width int) string {
	return s + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(s)))
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	if len(line) > 120 {
		line = line[:120] + "…"
	}
	return line
}

func indent(text string) string { return "    " + strings.ReplaceAll(text, "\n", "\n    ") }
