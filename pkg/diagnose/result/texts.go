// SPDX-License-Identifier: Apache-2.0

package result

import (
	"fmt"
	"slices"
	"strings"

	"github.com/http01-proxyd/http01-proxyd/pkg/findings"
)

// Subjects collects the results of a check for several subjects, such as addresses.
type Subjects struct {
	findings        []findings.Finding
	passed, unknown texts
}

// Find adds findings.
func (s *Subjects) Find(matches ...findings.Finding) { s.findings = append(s.findings, matches...) }

// FindAt adds a finding about an address with [Merge].
func (s *Subjects) FindAt(f findings.Finding, at fmt.Stringer) { s.findings = Merge(s.findings, f, at) }

// Merge adds a finding. If another address already caused the same finding, it adds the address
// to its message.
func Merge(matches []findings.Finding, f findings.Finding, at fmt.Stringer) []findings.Finding {
	i := slices.IndexFunc(matches, func(g findings.Finding) bool { return g.ID == f.ID })
	if i < 0 {
		return append(matches, f)
	}
	matches[i].Message += fmt.Sprintf(" (also %v)", at)
	return matches
}

// Pass adds what works for a subject.
func (s *Subjects) Pass(subject fmt.Stringer, format string, args ...any) {
	s.passed.add(subject, format, args...)
}

// Skip adds why a subject could not be checked.
func (s *Subjects) Skip(subject fmt.Stringer, format string, args ...any) {
	s.unknown.add(subject, format, args...)
}

// NotChecked describes the subjects that could not be checked.
func (s *Subjects) NotChecked() string { return s.unknown.String() }

// Result is the result for all subjects. If none could be checked, it is skipped with the
// reasons of [Subjects.Skip], or without these with the text.
func (s *Subjects) Result(none string) Result {
	switch {
	case len(s.findings) > 0, len(s.passed.texts) > 0:
		return PassUnless(s.findings, "%v", &s.passed).WithNotChecked(s.NotChecked())
	case len(s.unknown.texts) > 0:
		return Skip("%v", &s.unknown)
	default:
		return Skip("%s", none)
	}
}

// Label is a subject with its own name.
type Label string

func (l Label) String() string { return string(l) }

// texts groups subjects by their text, so that each text appears once.
type texts struct {
	texts    []string
	subjects [][]string
}

// add adds a subject to the group of its text.
func (b *texts) add(subject fmt.Stringer, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	i := slices.Index(b.texts, text)
	if i < 0 {
		b.texts, b.subjects = append(b.texts, text), append(b.subjects, nil)
		i = len(b.texts) - 1
	}
	if name := subject.String(); !slices.Contains(b.subjects[i], name) {
		b.subjects[i] = append(b.subjects[i], name)
	}
}

func (b *texts) String() string {
	parts := make([]string, len(b.texts))
	for i, text := range b.texts {
		parts[i] = strings.Join(b.subjects[i], ", ") + ": " + text
	}
	return strings.Join(parts, "; ")
}
