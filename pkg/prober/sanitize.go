// SPDX-License-Identifier: Apache-2.0

package prober

import "github.com/http01-proxyd/http01-proxyd/pkg/report"

// maxTextLength bounds a text of the network, in characters.
const maxTextLength = 512

// sanitizeLine makes one bounded line of a text.
func sanitizeLine(s string) string {
	count := 0
	for i := range s {
		if count++; count > maxTextLength {
			s = s[:i]
			break
		}
	}
	return report.OneLine(s)
}
