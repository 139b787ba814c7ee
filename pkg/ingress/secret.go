// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"encoding/base64"
	"fmt"
	"io"
	"slices"
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

// MarshalText returns the hidden form, so that an encoder does not reveal the text.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Reveal returns the text for the request to the proxy; empty: none.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// AppearsIn reports whether an error code from the network reveals the secret: the credentials
// in their encoded form, or user or password. A code contains none of the characters that other
// encodings of them would need. The code must be complete, because a truncated one may end with
// a part of the secret.
func (s Secret) AppearsIn(code string) bool {
	if s.text == nil {
		return false
	}
	_, credentials, _ := strings.Cut(*s.text, " ")
	hidden := []string{credentials}
	if plain, err := base64.StdEncoding.DecodeString(credentials); err == nil {
		user, password, _ := strings.Cut(string(plain), ":")
		hidden = append(hidden, user, password)
	}
	return slices.ContainsFunc(hidden, func(h string) bool { return h != "" && strings.Contains(code, h) })
}
