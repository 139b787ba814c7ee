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

// APIVersion is the version of all documents that commands print as JSON or YAML.
const APIVersion = "http01-proxyd.github.io/v1alpha1"

// Header begins each document.
type Header struct {
	APIVersion string `json:"apiVersion"` // version of the document's schema
	Kind       string `json:"kind"`       // type of the document
}

// NewHeader returns the header of a document.
func NewHeader(kind string) Header { return Header{APIVersion, kind} }

// WriteJSON writes a document as JSON: indented, or as one line. Characters that are not
// printable are written as \u escapes, because JSON is also read in terminals.
func WriteJSON(w io.Writer, v any, indent bool) error {
	var text strings.Builder
	e := json.NewEncoder(&text)
	if indent {
		e.SetIndent("", "  ")
	}
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("cannot write JSON: %w", err)
	}
	escaped := EscapeUnprintable(text.String(), func(r rune) string {
		if r > 0xffff {
			high, low := utf16.EncodeRune(r)
			return fmt.Sprintf(`\u%04x\u%04x`, high, low)
		}
		return fmt.Sprintf(`\u%04x`, r)
	})
	_, err := io.WriteString(w, escaped)
	return err
}

// EscapeUnprintable replaces characters that are not printable in a document. There, every
// character that is not ASCII is in a string.
func EscapeUnprintable(text string, escape func(rune) string) string {
	var b strings.Builder
	for _, r := range text {
		if r == '\n' || unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(escape(r))
		}
	}
	return b.String()
}
