// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing that is wrong with a configuration file.
type Problem struct {
	File         string
	Line, Column int    // both from 1
	Message      string // what is wrong, naming the key
	Fix          string // what to write instead
}

// Error gives "file:line:column: message: mend".
func (p Problem) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s: %s", p.File, p.Line, p.Column, p.Message, p.Fix)
}

// Problems is everything that is wrong with one file, in the file's order. It
// is the error type of Parse and Load whenever the file could be read.
type Problems []Problem

// maxProblemsShown bounds a message: a file that is something else altogether has
// a problem in every line.
const maxProblemsShown = 50

// Error gives one problem a line, the first 50 of them.
func (ps Problems) Error() string {
	lines := make([]string, 0, len(ps))
	for i, p := range ps {
		if i == maxProblemsShown {
			lines = append(lines, fmt.Sprintf("and %d more", len(ps)-i))
			break
		}
		lines = append(lines, p.Error())
	}
	return strings.Join(lines, "\n")
}

func (ps Problems) sorted() Problems {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return ps
}
