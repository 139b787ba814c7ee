// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"encoding/base64"
	"testing"
)

// TestSecretAppearsIn covers the forms in which an error code can reveal a secret.
func TestSecretAppearsIn(t *testing.T) {
	t.Parallel()
	const name, word = "cluster-1", "pass_w0rd"
	basic := base64.StdEncoding.EncodeToString([]byte(name + ":" + word))
	s := NewSecret("Basic " + basic)
	for _, text := range []string{name, word, basic} {
		if !s.AppearsIn("ERR_" + text + "_DENIED") {
			t.Errorf("%q is not seen", text)
		}
	}
	for _, text := range []string{"", "ERR_ACCESS_DENIED", "Basic"} {
		if s.AppearsIn(text) || NewSecret("").AppearsIn(text) {
			t.Errorf("%q is taken for it", text)
		}
	}
}
