// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"testing"
)

// TestSecretAppearsIn covers the forms in which a text can reveal a secret.
func TestSecretAppearsIn(t *testing.T) {
	t.Parallel()
	const name, word = "clüster", "pä\"ss\\ w/ord"
	basic := base64.StdEncoding.EncodeToString([]byte(name + ":" + word))
	s := NewSecret("Basic " + basic)
	for _, text := range []string{
		name, word, basic, fmt.Sprintf("malformed %q", "for "+word), fmt.Sprintf("malformed %+q", "for "+word),
		url.UserPassword(name, word).String(), url.QueryEscape(word), url.PathEscape(name),
	} {
		if !s.AppearsIn("the text " + text + " and no more") {
			t.Errorf("%q is not seen", text)
		}
	}
	for _, text := range []string{"", "the text does not contain it", "Basic"} {
		if s.AppearsIn(text) || NewSecret("").AppearsIn(text) {
			t.Errorf("%q is taken for it", text)
		}
	}
}
