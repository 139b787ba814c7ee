// SPDX-License-Identifier: Apache-2.0

package prober

import "github.com/http01-proxyd/http01-proxyd/pkg/report"

// maxText bounds a text of the network, in characters.
const maxText = 512

// line makes one bounded line of a text.
func line(s string) string {
	count := 0
	for i := range s {
		if count++; count > maxText {
			s = s[:i]
			break
		}
	}
	return report.OneLine(s)
}
