// SPDX-License-Identifier: Apache-2.0

package spelling

import "strings"

// maxWord bounds the words that are compared. No name is as long.
const maxWord = 64

// Nearest returns the name that is most like a word, or that begins with it; empty if none is.
func Nearest(word string, names []string) string {
	if len(word) > maxWord {
		return ""
	}
	word = strings.ToLower(word)
	nearest, limit := "", min(2, (len(word)+1)/3)+1
	for _, name := range names {
		if d := distance(word, strings.ToLower(name)); d < limit {
			nearest, limit = name, d
		}
	}
	for _, name := range names {
		if nearest == "" && len(word) > 2 && strings.HasPrefix(strings.ToLower(name), word) {
			nearest = name
		}
	}
	return nearest
}

// distance is the number of characters that are missing, added, replaced or swapped with the next one
// (optimal string alignment).
func distance(a, b string) int {
	d := make([][]int, len(a)+1)
	for i := range d {
		d[i] = make([]int, len(b)+1)
		d[i][0] = i
	}
	for j := range d[0] {
		d[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			replaced := d[i-1][j-1]
			if a[i-1] != b[j-1] {
				replaced++
			}
			d[i][j] = min(d[i-1][j]+1, d[i][j-1]+1, replaced)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d[i][j] = min(d[i][j], d[i-2][j-2]+1)
			}
		}
	}
	return d[len(a)][len(b)]
}
