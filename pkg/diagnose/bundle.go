// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"fmt"
	"slices"
	"strings"
)

// bundle is what is to be said of several things, each text once.
type bundle struct {
	texts []string
	of    [][]string
}

// add says text of a thing.
func (b *bundle) add(thing fmt.Stringer, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	i := slices.Index(b.texts, text)
	if i < 0 {
		b.texts, b.of = append(b.texts, text), append(b.of, nil)
		i = len(b.texts) - 1
	}
	if name := thing.String(); !slices.Contains(b.of[i], name) {
		b.of[i] = append(b.of[i], name)
	}
}

func (b *bundle) empty() bool { return len(b.texts) == 0 }

func (b *bundle) String() string {
	parts := make([]string, len(b.texts))
	for i, text := range b.texts {
		parts[i] = strings.Join(b.of[i], ", ") + ": " + text
	}
	return strings.Join(parts, "; ")
}
