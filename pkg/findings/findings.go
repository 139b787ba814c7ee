// SPDX-License-Identifier: Apache-2.0

package findings

import (
	"fmt"
	"slices"
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
	ID          ID
	Check       string // the check that finds it, or beside whose entries it belongs
	Level       Level
	Symptom     string // what an admin sees who has not run check, for the documentation
	Message     string // the cause
	Remediation string // what to do about it
	// Cause is what the journal's field CAUSE, the status and the metrics say when
	// an exchange with the ingress shows it; empty when none does.
	Cause       string
	Reply       string // what the client of such an exchange is answered; empty where it gets the ingress's answer
	JournalOnly bool   // no check finds it: it is about a challenge that the service was asked for
	// Follows are the entries of which it is a consequence: where one of these is
	// found, it says nothing new.
	CausedBy []ID
}

// All is the catalogue, in the order of the checks.
func All() []Entry { return slices.Clone(loadIndex().entries) }

// Finding is an entry that applies to this host now.
type Finding struct {
	ID          ID     `json:"id"`
	Level       Level  `json:"level"`
	Message     string `json:"says"`
	Remediation string `json:"mend"`
	// Follows are the entry's, unless who has found it knows better.
	CausedBy []ID `json:"-"`
}

// New is the entry with the given ID, filled with values: pairs of a
// placeholder's name and what it stands for. One that is given twice, or without
// a value, panics: only one of two could be said.
func New(id ID, values ...string) Finding {
	if len(values)%2 != 0 {
		panic(fmt.Sprintf("catalogue: a value of %q is missing: %q", id, values))
	}
	pairs := make([]string, 0, len(values))
	seen := make(map[string]bool)
	for pair := range slices.Chunk(values, 2) {
		if seen[pair[0]] {
			panic(fmt.Sprintf("catalogue: %q has two values for %s", id, pair[0]))
		}
		seen[pair[0]] = true
		pairs = append(pairs, "{"+pair[0]+"}", pair[1])
	}
	fill := strings.NewReplacer(pairs...)
	e := Lookup(id)
	return Finding{ID: id, Level: e.Level, Message: fill.Replace(e.Message), Remediation: fill.Replace(e.Remediation), CausedBy: e.CausedBy}
}

// Lookup is the entry with the given ID. One that is not in the catalogue panics.
func Lookup(id ID) Entry {
	e, is := loadIndex().byID[id]
	if !is {
		panic(fmt.Sprintf("catalogue: no entry %q", id))
	}
	return e
}

// ForCause is the entry with the given Cause, if there is one.
func ForCause(cause string) (ID, bool) {
	id, is := loadIndex().byCause[cause]
	return id, is
}

// Causes returns all causes of failed or unusual exchanges, in the order of the entries.
func Causes() []string { return slices.Clone(loadIndex().causes) }

// ReplyForCause is what the client of an exchange with a cause is answered.
func ReplyForCause(cause string) string {
	if id, is := ForCause(cause); is && Lookup(id).Reply != "" {
		return Lookup(id).Reply
	}
	return Lookup(ResponseMalformed).Reply
}

// OnOtherHost is the finding where it was made at another host, of which the causes
// of [LocalServingFaults] on this one say nothing.
func (f Finding) OnOtherHost() Finding {
	f.CausedBy = slices.DeleteFunc(slices.Clone(f.CausedBy), func(id ID) bool { return slices.Contains(LocalServingFaults(), id) })
	return f
}

// String is cause and mend in one line.
func (f Finding) String() string { return f.Message + ": " + f.Remediation }
