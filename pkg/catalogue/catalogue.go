// SPDX-License-Identifier: Apache-2.0

package catalogue

import (
	"fmt"
	"strings"
)

// ID names one thing that goes wrong. It stands in `check -o json` and in the
// journal, and never changes.
type ID string

// Level is how bad it is.
type Level string

// The levels.
const (
	Warning Level = "warning" // challenges succeed now, and may not later, or not for all
	Problem Level = "problem" // challenges fail, or the certificate does
)

// Entry is the words for one thing that goes wrong. Says and Mend may hold
// placeholders such as {vip}, for which [Find] puts in what was found.
type Entry struct {
	ID      ID
	Check   string // the check that finds it
	Level   Level
	Symptom string // what an admin sees who has not run check, for the documentation
	Says    string // the cause
	Mend    string // what to do about it
	// Cause is what the journal's field CAUSE, the status and the metrics say when
	// an exchange with the ingress shows it; empty when none does.
	Cause string
	// Follows are the entries of which it is a consequence: where one of these is
	// found, it says nothing new.
	Follows []ID
}

// All is the catalogue, in the order of the checks.
func All() []Entry { return entries() }

// Finding is an entry that applies to this host now.
type Finding struct {
	ID    ID     `json:"id"`
	Level Level  `json:"level"`
	Says  string `json:"says"`
	Mend  string `json:"mend"`
}

// Find is the entry with the given ID, filled with values: pairs of a
// placeholder's name and what it stands for.
func Find(id ID, values ...string) Finding {
	pairs := make([]string, 0, len(values))
	for i := 0; i+1 < len(values); i += 2 {
		pairs = append(pairs, "{"+values[i]+"}", values[i+1])
	}
	fill := strings.NewReplacer(pairs...)
	e := Get(id)
	return Finding{ID: id, Level: e.Level, Says: fill.Replace(e.Says), Mend: fill.Replace(e.Mend)}
}

// Get is the entry with the given ID. One that is not in the catalogue panics.
func Get(id ID) Entry {
	for _, e := range entries() {
		if e.ID == id {
			return e
		}
	}
	panic(fmt.Sprintf("catalogue: no entry %q", id))
}

// OfCause is the entry with the given Cause, if there is one.
func OfCause(cause string) (ID, bool) {
	for _, e := range entries() {
		if e.Cause == cause && cause != "" {
			return e.ID, true
		}
	}
	return "", false
}

// String is cause and mend in one line.
func (f Finding) String() string { return f.Says + ": " + f.Mend }
