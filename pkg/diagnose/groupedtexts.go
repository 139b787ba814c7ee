// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"fmt"
	"slices"
	"strings"
)

// groupedTexts groups subjects by their text, so that each text appears once.
type groupedTexts struct {
	texts    []string
	subjects [][]string
}

// add adds a subject to the group of its text.
func (b *groupedTexts) add(thing fmt.Stringer, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	i := slices.Index(b.texts, text)
	if i < 0 {
		b.texts, b.subjects = append(b.texts, text), append(b.subjects, nil)
		i = len(b.texts) - 1
	}
	if name := thing.String(); !slices.Contains(b.subjects[i], name) {
		b.subjects[i] = append(b.subjects[i], name)
	}
}

func (b *groupedTexts) empty() bool { return len(b.texts) == 0 }

func (b *groupedTexts) String() string {
	parts := make([]string, len(b.texts))
	for i, text := range b.texts {
		parts[i] = strings.Join(b.subjects[i], ", ") + ": " + text
	}
	return strings.Join(parts, "; ")
}
