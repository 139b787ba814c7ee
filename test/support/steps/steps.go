// SPDX-License-Identifier: Apache-2.0

// Package steps runs the steps of a demonstration in order and prints a line for each with
// its result and its time.
package steps

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"
)

// Step is one step of a demonstration.
type Step struct {
	Title string
	// Run executes the step and returns its result. Its first line belongs to the step's
	// line.
	Run func(context.Context) (string, error)
	// Base marks a step that later steps need.
	Base bool
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

// Results has the result of each step.
type Results []result

// OK reports whether every step succeeded.
func (r Results) OK() bool {
	for _, one := range r {
		if one.mark != good {
			return false
		}
	}
	return true
}

// Printer prints steps as they end, with colours on a terminal only.
type Printer struct {
	w        io.Writer
	terminal bool
	logs     func() string // output of the lab's programs for a failed step
}

// NewPrinter returns a printer. logs returns the output of the programs for a failed step.
func NewPrinter(f *os.File, logs func() string) Printer {
	info, err := f.Stat()
	terminal := err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
	return Printer{w: f, terminal: terminal, logs: logs}
}

// Show runs the steps in order and prints the table at the end.
func (p Printer) Show(ctx context.Context, steps []Step) Results {
	width := 0
	for _, s := range steps {
		width = max(width, utf8.RuneCountInString(s.Title))
	}
	started := time.Now()
	all := make(Results, 0, len(steps))
	broken := false
	for _, s := range steps {
		r := result{title: s.Title}
		if !broken && ctx.Err() == nil {
			r = p.runStep(ctx, s, width)
		}
		broken = broken || (s.Base && r.mark == bad)
		all = append(all, r)
	}
	p.table(all, width, time.Since(started))
	return all
}

// runStep runs a step and prints its line.
func (p Printer) runStep(ctx context.Context, s Step, width int) result {
	if p.terminal {
		fmt.Fprintf(p.w, "…           %s", s.Title)
	}
	started := time.Now()
	seen, err := s.Run(ctx)
	r := result{title: s.Title, mark: good, elapsed: time.Since(started)}
	if err != nil {
		r.mark = bad
		seen = firstLine(err)
	}
	if p.terminal {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
	line, more, _ := strings.Cut(seen, "\n")
	fmt.Fprintf(p.w, "%s %s  %s  %s\n", p.symbol(r.mark), seconds(r.elapsed), pad(s.Title, width), line)
	if more != "" {
		fmt.Fprintln(p.w, indent(more))
	}
	if err != nil && ctx.Err() == nil {
		fmt.Fprintln(p.w, indent(err.Error()+"\n"+p.logs()))
	}
	return r
}

func (p Printer) table(all Results, width int, total time.Duration) {
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

func overallMark(all Results) mark {
	if all.OK() {
		return good
	}
	return bad
}

func (p Printer) symbol(m mark) string {
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
