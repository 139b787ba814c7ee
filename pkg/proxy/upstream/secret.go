// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Secret is the value of a Proxy-Authorization field, or none. Whatever prints it,
// or what it is a part of, shows that there is one and not which: package fmt calls
// no method of a field that is not exported, and prints a pointer within as such.
type Secret struct{ text *string }

// NewSecret hides a text; an empty one is none.
func NewSecret(text string) Secret {
	if text == "" {
		return Secret{}
	}
	return Secret{&text}
}

// Equal compares what is hidden.
func (s Secret) Equal(other Secret) bool { return s.reveal() == other.reveal() }

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

// MarshalText keeps it from what is written down, too.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

func (s Secret) reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// AppearsIn reports whether a text that came from elsewhere, such as the proxy's
// reason, gives it away: as it stands, or what Basic has encoded in it, each also in
// the forms that %q and URLs have for it. The text must be whole: of one that was cut,
// the end may hold a part of the secret.
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

// trimQuotes is what is between the quotes.
func trimQuotes(text string) string { return text[1 : len(text)-1] }
