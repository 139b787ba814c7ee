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

// Status is the report of a host as a document.
type Status struct {
	Header
	Report
}

// Document returns the report with its header.
func (r Report) Document() Status { return Status{NewHeader("Status"), r} }

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
