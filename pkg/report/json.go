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

// OneLine is what may be shown of a text that quotes others: sd_notify's fields
// end at a newline, a terminal obeys control characters (C1 among them, and in
// UTF-8 too), and bidirectional overrides and invisible characters make text
// look like another. A space stands for each of these.
func OneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
}

// WriteJSON prints the report for a program: indented, or as one line. What
// [OneLine] would not let through is written as \u escapes, which mean the same,
// since people look at JSON in terminals, too.
func (r Report) WriteJSON(w io.Writer, indent bool) error { return WriteJSON(w, r, indent) }

// WriteJSON prints v as [Report.WriteJSON] does.
func WriteJSON(w io.Writer, v any, indent bool) error {
	var text strings.Builder
	e := json.NewEncoder(&text)
	if indent {
		e.SetIndent("", "  ")
	}
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("write the report as JSON: %w", err)
	}
	_, err := io.WriteString(w, escapeUnprintable(text.String()))
	return err
}

// escapeUnprintable needs JSON: whatever is no ASCII there stands in a string.
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
