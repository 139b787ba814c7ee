// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"strings"
)

// Count is a number with its noun.
func Count[N int | uint64](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// CountLevels returns the numbers of problems and warnings among levels; empty without any.
func CountLevels[L ~string](levels []L) string {
	counts := map[L]int{}
	for _, l := range levels {
		counts[l]++
	}
	var found []string
	for _, l := range []L{LevelProblem, LevelWarning} {
		if counts[l] > 0 {
			found = append(found, Count(counts[l], string(l)))
		}
	}
	return strings.Join(found, " and ")
}
