// SPDX-License-Identifier: Apache-2.0

package page

import "strings"

// policy forbids everything that is not in the document, also what a defect could add.
const policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"

// document returns a whole HTML document.
func document(title string, body parts) []byte {
	root := el("html", attr("lang", "en"),
		el("head",
			el("meta", attr("charset", "utf-8")),
			el("meta", attr("http-equiv", "Content-Security-Policy"), attr("content", policy)),
			el("meta", attr("name", "viewport"), attr("content", "width=device-width, initial-scale=1")),
			el("meta", attr("name", "color-scheme"), attr("content", "light dark")),
			el("meta", attr("name", "referrer"), attr("content", "no-referrer")),
			el("title", text(title)),
			styleSheet{}),
		el("body", body, el("footer", el("p", text("This page is complete: it has no scripts and loads nothing. It contains host names, addresses and the first characters of tokens.")))))
	var b strings.Builder
	b.WriteString("<!DOCTYPE html>\n")
	root.writeTo(&b)
	b.WriteString("\n")
	return []byte(b.String())
}
