// SPDX-License-Identifier: Apache-2.0

package result

import (
	"fmt"
	"net/netip"
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

// FindAt adds a finding about a subject with [Merge].
func (s *Subjects) FindAt(f findings.Finding, at fmt.Stringer) { s.findings = Merge(s.findings, f, at) }

// Merge adds a finding. If there is the same one about another subject, usually the address of the
// other family, it becomes a finding about both: they have one cause.
func Merge(matches []findings.Finding, f findings.Finding, at fmt.Stringer) []findings.Finding {
	i := slices.IndexFunc(matches, func(g findings.Finding) bool { return g.ID == f.ID && g.Level == f.Level })
	if i < 0 {
		return append(matches, f)
	}
	both := &matches[i]
	if message, joined := joinTexts(both.Message, f.Message); joined {
		both.Message = message
	} else {
		both.Message += fmt.Sprintf(" (also %v)", at)
	}
	if remediation, joined := joinTexts(both.Remediation, f.Remediation); joined {
		both.Remediation = remediation
	}
	for _, command := range f.Commands {
		if !slices.Contains(both.Commands, command) {
			both.Commands = append(both.Commands, command)
		}
	}
	return matches
}

// joinTexts returns two texts as one if they differ, and only in their addresses, of which one is IPv4
// and the other IPv6.
func joinTexts(a, b string) (both string, joined bool) {
	left, right := strings.Split(a, " "), strings.Split(b, " ")
	if len(left) != len(right) {
		return "", false
	}
	for i, word := range left {
		if word == right[i] {
			continue
		}
		first := strings.TrimRight(word, ".,:;)")
		second, is := strings.CutSuffix(right[i], word[len(first):])
		if !is || !areFamilies(first, second) {
			return "", false
		}
		left[i] = first + " (also " + second + ")" + word[len(first):] // with one subject, the verb stays
	}
	return strings.Join(left, " "), a != b
}

// areFamilies reports whether two texts are addresses, with or without a port, of both families.
func areFamilies(a, b string) bool {
	var addrs [2]netip.Addr
	for i, text := range []string{a, b} {
		endpoint, err := netip.ParseAddrPort(text)
		if addrs[i] = endpoint.Addr(); err != nil {
			addrs[i], err = netip.ParseAddr(text)
		}
		if err != nil {
			return false
		}
	}
	return addrs[0].Is4() != addrs[1].Is4()
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
