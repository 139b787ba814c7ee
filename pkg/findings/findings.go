// SPDX-License-Identifier: Apache-2.0

package findings

import (
	"maps"
	"slices"
	"strings"
)

// ID identifies a finding in `check -o json` and in the documentation. It never changes.
type ID string

// Level is the severity of a finding.
type Level string

// The levels.
const (
	Warning Level = "warning" // challenges succeed now, but may fail later or for some clients
	Problem Level = "problem" // challenges fail, or the certificate does
)

// Entry is the text of one finding. Message and Remediation may contain placeholders such
// as {vip}, which [New] replaces. Message has no final full stop; Remediation has.
type Entry struct {
	ID          ID
	Check       string // the check that detects it, or that it is listed with
	Level       Level
	Symptom     string // visible without check, for the documentation
	Message     string // the cause
	Remediation string
	// Cause is the value of the journal field CAUSE, the status and the metrics for an
	// exchange with the ingress that shows this fault; empty if none does.
	Cause       string
	Reply       string // response body to the client of such an exchange; empty if it gets the ingress's response
	JournalOnly bool   // no check detects it, because it is about a challenge that the service handled
	// CausedBy lists findings that explain this one. If one of them is found, this one is
	// redundant.
	CausedBy []ID
}

// Forwarded reports whether the client of the exchange gets the ingress's own response.
func (e Entry) Forwarded() bool { return e.Cause != "" && e.Reply == "" }

// All lists the entries in the order of the checks.
func All() []Entry { return slices.Clone(loadIndex().entries) }

// Finding is an entry that applies to this host now.
type Finding struct {
	ID          ID     `json:"id"`
	Level       Level  `json:"level"`
	Message     string `json:"message"`
	Remediation string `json:"remediation"`
	// CausedBy is the entry's list, unless the check determines another one.
	CausedBy []ID `json:"-"`
}

// Values are the values of an entry's placeholders, by name.
type Values map[string]string

// With returns a copy with one more value.
func (v Values) With(name, value string) Values {
	w := maps.Clone(v)
	if w == nil {
		w = make(Values)
	}
	w[name] = value
	return w
}

// New returns the finding with the given ID. Placeholders without a value stay as they
// are. A test ensures that every ID has an entry; without one, the ID is the message.
func New(id ID, values Values) Finding {
	e, known := Lookup(id)
	if !known {
		e = Entry{Level: Problem, Message: string(id)}
	}
	pairs := make([]string, 0, 2*len(values))
	for name, value := range values {
		pairs = append(pairs, "{"+name+"}", value)
	}
	fill := strings.NewReplacer(pairs...)
	return Finding{ID: id, Level: e.Level, Message: fill.Replace(e.Message), Remediation: fill.Replace(e.Remediation), CausedBy: e.CausedBy}
}

// Lookup returns the entry with the given ID.
func Lookup(id ID) (Entry, bool) {
	e, known := loadIndex().byID[id]
	return e, known
}

// ForCause returns the ID of the entry with the given Cause.
func ForCause(cause string) (ID, bool) {
	id, known := loadIndex().byCause[cause]
	return id, known
}

// Causes returns all causes of failed or unusual exchanges, in the order of the entries.
func Causes() []string { return slices.Clone(loadIndex().causes) }

// ReplyForCause is the response body to the client of an exchange with a cause.
func ReplyForCause(cause string) string {
	id, _ := ForCause(cause)
	if e, known := Lookup(id); known && e.Reply != "" {
		return e.Reply
	}
	e, _ := Lookup(ResponseMalformed)
	return e.Reply
}

// OnOtherHost is the finding for another host. Faults of this host do not explain it.
func (f Finding) OnOtherHost() Finding {
	f.CausedBy = slices.DeleteFunc(slices.Clone(f.CausedBy), func(id ID) bool { return slices.Contains(LocalServingFaults(), id) })
	return f
}

// String is message and remediation in one line.
func (f Finding) String() string { return f.Message + ". " + f.Remediation }
