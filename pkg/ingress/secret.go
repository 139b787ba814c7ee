// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Secret is the value of a Proxy-Authorization field, or none. No printed form of
// it, or of a value that contains it, reveals the text. Package fmt calls no method
// of an unexported field, and prints a pointer inside it as an address.
type Secret struct{ text *string }

// NewSecret hides a text. An empty text is no secret.
func NewSecret(text string) Secret {
	if text == "" {
		return Secret{}
	}
	return Secret{&text}
}

// Equal compares the hidden texts.
func (s Secret) Equal(other Secret) bool { return s.Reveal() == other.Reveal() }

// Format implements [fmt.Formatter], for every verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

func (s Secret) String() string {
	if s.text == nil {
		return "none"
	}
	return "(hidden)"
}

// GoString implements [fmt.GoStringer].
func (s Secret) GoString() string { return s.String() }

// MarshalText returns the hidden form, so that an encoder does not reveal the text.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Reveal returns the text for the request to the proxy; empty: none.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// AppearsIn reports whether a text from the network reveals the secret. It searches
// for the credentials in their encoded form and as user and password, each also as
// %q and URLs write them. The text must be complete, because a truncated text may
// end with a part of the secret.
func (s Secret) AppearsIn(text string) bool {
	if s.text == nil {
		return false
	}
	_, credentials, _ := strings.Cut(*s.text, " ")
	hidden := []string{credentials}
	if plain, err := base64.StdEncoding.DecodeString(credentials); err == nil {
		user, password, _ := strings.Cut(string(plain), ":")
		hidden = append(hidden, user, password)
	}
	return slices.ContainsFunc(hidden, func(h string) bool { return h != "" && containsEncoded(text, h) })
}

func containsEncoded(text, hidden string) bool {
	for _, form := range []string{
		hidden, trimQuotes(strconv.Quote(hidden)), trimQuotes(strconv.QuoteToASCII(hidden)),
		url.QueryEscape(hidden), url.PathEscape(hidden), url.User(hidden).String(),
	} {
		if strings.Contains(text, form) {
			return true
		}
	}
	return false
}

func trimQuotes(text string) string { return text[1 : len(text)-1] }
