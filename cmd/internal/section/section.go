// SPDX-License-Identifier: Apache-2.0

package section

import (
	"time"

	"github.com/http01-proxyd/http01-proxyd/pkg/report"
)

// Section is a part of a status: rows, and tables below them.
type Section struct {
	Title  string
	Rows   []Row
	Tables []Table
}

// Row is a text with a label. A row without a label continues the one before it, and may
// have several lines.
type Row struct {
	Label  string
	Level  Level
	Text   string
	Short  string // the text of a short status; empty: Text
	Detail bool   // belongs to a status with all details only, unless it is a problem
}

// IsShown reports whether a short status has the row.
func (r Row) IsShown() bool { return !r.Detail || r.Level == Bad || r.Level == Warning }

// Table is a table with a caption for a page.
type Table struct {
	Caption string
	Columns []Column
	Rows    [][]Cell
}

// Column is a column of a table.
type Column struct {
	Title    string
	MinWidth int  // it may be narrowed to this number of characters; 0: never
	Numeric  bool // aligned to the right
	Optional bool // it may be omitted on a narrow terminal
}

// Cell is one cell of a row.
type Cell struct {
	Text   string
	Level  Level
	Marked bool      // a text shows the mark of the level too, not only its colour
	Time   time.Time // the time of an age, for a page that is read later; zero: none
}

// Level is how a state is marked. The text beside a mark has the same meaning.
type Level string

// The levels. The zero value has no mark.
const (
	Good    Level = "good"
	Warning Level = "warning"
	Bad     Level = "bad"
	Neutral Level = "neutral"
)

// Sign is the character that marks a level; empty for the zero value.
func (l Level) Sign() string {
	return map[Level]string{Good: "✓", Warning: "!", Bad: "✗", Neutral: "-"}[l]
}

// OfCondition distinguishes success, states that somebody configured, and errors.
func OfCondition(c report.Condition) Level {
	switch {
	case c.Status == "True":
		return Good
	case c.Reason.Expected(), c.Reason == report.NotReachable: // nobody knows whether it works
		return Warning
	default:
		return Bad
	}
}

// OfProblem is the level of a finding.
func OfProblem(level string) Level {
	if level == report.LevelWarning {
		return Warning
	}
	return Bad
}

// OfOutcome is the level of the outcome of a check, on a host or in a cluster.
func OfOutcome(outcome report.CheckOutcome) Level {
	switch outcome {
	case report.CheckOK:
		return Good
	case report.CheckProblem:
		return Bad
	case report.CheckWarning, report.CheckIncomplete:
		return Warning
	default:
		return Neutral
	}
}

func since(t, now time.Time) Cell {
	if t.IsZero() {
		return Cell{Text: "-"}
	}
	return Cell{Text: report.Age(now.Sub(t)), Time: t}
}
