// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"io"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/pkg/catalogue"
)

// WriteText prints the report for a person: a line for each check, and cause and
// mend of what was found. colour says that w is a terminal.
func (r Report) WriteText(w io.Writer, colour bool) error {
	var b strings.Builder
	width := 0
	for _, c := range r.Checks {
		width = max(width, len(c.Name))
	}
	for _, c := range r.Checks {
		if len(c.Findings) == 0 {
			fmt.Fprintf(&b, "%s %-*s  %s\n", mark(c.Outcome, colour), width, c.Name, c.Text)
		}
		for _, f := range c.Findings {
			fmt.Fprintf(&b, "%s %-*s  %s\n", mark(outcomeOf(f.Level), colour), width, c.Name, f.Says)
			fmt.Fprintf(&b, "  %-*s  mend: %s\n", width, "", f.Mend)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func outcomeOf(l catalogue.Level) Outcome {
	if l == catalogue.Problem {
		return Failed
	}
	return Warned
}

func mark(o Outcome, colour bool) string {
	sign, code := "-", "2"
	switch o {
	case Fine:
		sign, code = "✓", "32"
	case Warned:
		sign, code = "!", "33"
	case Failed:
		sign, code = "✗", "31"
	case Skipped:
	}
	if !colour {
		return sign
	}
	return "\x1b[" + code + "m" + sign + "\x1b[0m"
}
