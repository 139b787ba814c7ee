// SPDX-License-Identifier: Apache-2.0

package page

import (
	_ "embed"
	"strings"
	"time"
)

// policy forbids everything that is not in the document, also what a defect could add.
const policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"

// rules are constant. They have no characters to which a style element gives a meaning.
//
//go:embed style.css
var rules string

// styleSheet is the style element.
type styleSheet struct{}

func (s styleSheet) addTo(parent *element) { parent.children = append(parent.children, s) }

func (styleSheet) writeTo(b *strings.Builder) { b.WriteString("<style>\n" + rules + "</style>\n") }

// document returns a whole HTML document of a product, with a heading. Both are its title.
func document(product, heading string, now time.Time, contents parts) []byte {
	root := el("html", attr("lang", "en"),
		el("head",
			el("meta", attr("charset", "utf-8")),
			el("meta", attr("http-equiv", "Content-Security-Policy"), attr("content", policy)),
			el("meta", attr("name", "viewport"), attr("content", "width=device-width, initial-scale=1")),
			el("meta", attr("name", "color-scheme"), attr("content", "light dark")),
			el("meta", attr("name", "referrer"), attr("content", "no-referrer")),
			el("title", text(product+": "+heading)),
			styleSheet{}),
		el("body",
			el("header", class("top"),
				el("p", class("product"), text(product)),
				el("h1", text(heading)),
				el("p", class("muted"), text("Created "+clock(now)+" UTC"))),
			el("main", contents),
			el("footer", el("p", text("This page is complete: it has no scripts and loads nothing. "+
				"It contains host names, addresses and the first characters of tokens.")))))
	var b strings.Builder
	b.WriteString("<!DOCTYPE html>\n")
	root.writeTo(&b)
	b.WriteString("\n")
	return []byte(b.String())
}
