// SPDX-License-Identifier: Apache-2.0

package config

import (
	"strconv"
	"strings"
)

// redacted stands for a text that may hold a password: the URL of a proxy that was
// written one key off, say. Messages come into the journal.
const redacted = `"…" (not shown: it may hold a password)`

// quoteRedacted is a text of the file for a message.
func quoteRedacted(text string) string {
	if mayHoldPassword(text) {
		return redacted
	}
	return strconv.Quote(text)
}

// redact is quoted for what has no quotes, such as a number.
func redact(text string) string {
	if mayHoldPassword(text) {
		return redacted
	}
	return text
}

// mayHoldPassword holds for each text with user information in it (RFC 3986 section
// 3.2.1), whether the rest is a URL or not, and for what begins as a URL and may be
// cut off before the "@".
func mayHoldPassword(text string) bool {
	return strings.ContainsRune(text, '@') || strings.Contains(text, "://")
}

// redactAnchor is what the YAML library says, without the name of an anchor: a password
// may begin with "*".
func redactAnchor(said string) string {
	before, _, is := strings.Cut(said, "anchor '")
	if is {
		return before + "anchor"
	}
	return redact(said)
}
