// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"
)

// WriteJSON writes the report as JSON: indented, or as one line. Characters that are not
// printable are written as \u escapes, because JSON is also read in terminals.
func (r Report) WriteJSON(w io.Writer, indent bool) error { return WriteJSON(w, r, indent) }

// WriteJSON writes v like [Report.WriteJSON].
func WriteJSON(w io.Writer, v any, indent bool) error {
	var text strings.Builder
	e := json.NewEncoder(&text)
	if indent {
		e.SetIndent("", "  ")
	}
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("cannot write the report as JSON: %w", err)
	}
	_, err := io.WriteString(w, escapeUnprintable(text.String()))
	return err
}

// escapeUnprintable escapes characters in JSON. There, every character that is not
// ASCII is in a string.
func escapeUnprintable(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == '\n' || unicode.IsPrint(r):
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}
