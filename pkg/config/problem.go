// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is one problem of a configuration file.
type Problem struct {
	File         string
	Line, Column int    // both start at 1
	Message      string // what is wrong, with the key
	Fix          string // what to change
}

// Error returns "file:line:column: message: fix".
func (p Problem) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s: %s", p.File, p.Line, p.Column, p.Message, p.Fix)
}

// Problems is all problems of one file, in the order of their positions. It is the
// error type of Parse and Load if the file could be read.
type Problems []Problem

// maxProblemsShown bounds a message: a file of another format has a problem in every
// line.
const maxProblemsShown = 50

// Error returns one line for each of the first 50 problems.
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
