// SPDX-License-Identifier: Apache-2.0

package config

import (
	"strconv"
	"strings"
)

// redacted replaces a text that may contain a password, for example the URL of a proxy
// under the wrong key. Problems are written to the journal.
const redacted = `"…" (not shown: it may contain a password)`

// quoteRedacted returns a text of the file for a message, in quotes.
func quoteRedacted(text string) string {
	if mayHoldPassword(text) {
		return redacted
	}
	return strconv.Quote(text)
}

// redact returns a text of the file for a message without quotes, such as a number.
func redact(text string) string {
	if mayHoldPassword(text) {
		return redacted
	}
	return text
}

// mayHoldPassword reports whether a text may contain user information (RFC 3986 section
// 3.2.1). A URL without an "@" counts, too: it may have been truncated before it.
func mayHoldPassword(text string) bool {
	return strings.ContainsRune(text, '@') || strings.Contains(text, "://")
}

// redactAnchor returns a message of the YAML library without the name of an anchor: a
// password may begin with "*".
func redactAnchor(message string) string {
	before, _, is := strings.Cut(message, "anchor '")
	if is {
		return before + "anchor"
	}
	return redact(message)
}
