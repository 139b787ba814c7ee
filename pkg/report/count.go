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

// CountFindings are the numbers of problems and warnings; empty without any.
func CountFindings(problems, warnings int) string {
	var found []string
	if problems > 0 {
		found = append(found, Count(problems, "problem"))
	}
	if warnings > 0 {
		found = append(found, Count(warnings, "warning"))
	}
	return strings.Join(found, " and ")
}
