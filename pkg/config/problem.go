// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/internal/httpfield"
)

// Problem is a reason why a file, or another input of the administrator, is rejected.
type Problem struct {
	Where        string // the file, or the object of the problem
	Line, Column int    // both start at 1; 0: not known
	Message      string // what is wrong, with the key
	Remediation  string
}

// Position returns the file with the known parts of the position.
func (p Problem) Position() string {
	switch {
	case p.Line == 0:
		return p.Where
	case p.Column == 0:
		return fmt.Sprintf("%s:%d", p.Where, p.Line)
	default:
		return fmt.Sprintf("%s:%d:%d", p.Where, p.Line, p.Column)
	}
}

// Error returns "file:line:column: message: remediation".
func (p Problem) Error() string { return p.Position() + ": " + p.Message + ": " + p.Remediation }

// Problems is all problems of one file, in the order of their positions. It is the
// error type of Parse and Load if the file could be read.
type Problems []Problem

// maxProblemsShown bounds a message: a file of another format causes a problem in every line.
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

// redacted replaces a text that may contain a password, for example the URL of a proxy
// under the wrong key. Problems are written to the journal.
const redacted = `"…" (not shown: it may contain a password)`

// quoteRedacted returns a text of the file for a message, in quotes.
func quoteRedacted(text string) string {
	if mayHoldPassword(text) {
		return redacted
	}
	return strconv.Quote(text)
}

// redact returns a text of the file for a message without quotes, such as a number.
func redact(text string) string {
	if mayHoldPassword(text) {
		return redacted
	}
	return text
}

// mayHoldPassword reports whether a text may contain user information (RFC 3986 section 3.2.1).
// A URL without an "@" counts, too, because it may have been truncated before it, unless it
// consists of a host name only.
func mayHoldPassword(text string) bool {
	_, rest, isURL := strings.Cut(text, "://")
	return strings.ContainsRune(text, '@') || isURL && !httpfield.IsHostName(strings.TrimSuffix(rest, "/"))
}

// redactAnchor returns a message of the YAML library without the name of an anchor: a
// password may begin with "*".
func redactAnchor(message string) string {
	before, _, ok := strings.Cut(message, "anchor '")
	if ok {
		return before + "anchor"
	}
	return redact(message)
}
