// SPDX-License-Identifier: Apache-2.0

package probe

import "github.com/http01-proxyd/http01-proxyd/pkg/status"

// maxText bounds a text of the network, in characters.
const maxText = 512

// maxDetail is the same for why an exchange has failed: who is not trusted, by whom
// that one was certified, and what is trusted, which are bounded one by one.
const maxDetail = 2 * maxText

// line makes one bounded line of a text.
func line(s string) string { return lineOf(s, maxText) }

func lineOf(s string, limit int) string {
	count := 0
	for i := range s {
		if count++; count > limit {
			s = s[:i]
			break
		}
	}
	return status.OneLine(s)
}
