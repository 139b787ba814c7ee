// SPDX-License-Identifier: Apache-2.0

// Package steps runs the steps of a demonstration in order and prints a line for each with
// its result and its time.
package steps

import (
	"context"
	"fmt"
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

// Show runs the steps in order and reports whether every one succeeded. logs returns the
// output of the programs for a failed step.
func Show(ctx context.Context, steps []Step, logs func() string) (ok bool) {
	width := 0
	for _, s := range steps {
		width = max(width, utf8.RuneCountInString(s.Title))
	}
	ok = true
	begin := time.Now()
	for _, s := range steps {
		if ctx.Err() != nil {
			return false
		}
		started := time.Now()
		seen, err := s.Run(ctx)
		sign := "✓"
		if err != nil {
			sign, seen, ok = "✗", err.Error(), false
		}
		line, more, _ := strings.Cut(seen, "\n")
		fmt.Printf("%s %6.2f s  %-*s  %s\n", sign, time.Since(started).Seconds(), width, s.Title, line)
		if err != nil && ctx.Err() == nil {
			more += "\n" + logs()
		}
		if more != "" {
			fmt.Println("    " + strings.ReplaceAll(more, "\n", "\n    "))
		}
		if err != nil && s.Base {
			return false
		}
	}
	fmt.Printf("  %6.2f s  together\n", time.Since(begin).Seconds())
	return ok
}
