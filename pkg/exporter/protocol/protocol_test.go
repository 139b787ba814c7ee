// SPDX-License-Identifier: Apache-2.0

package protocol_test

import (
	"testing"

	"github.com/http01-proxyd/http01-proxyd/internal/wire"
	"github.com/http01-proxyd/http01-proxyd/pkg/exporter/protocol"
)

// FuzzEvent decodes what a hostile exporter can send: an accepted event has exactly one
// payload.
func FuzzEvent(f *testing.F) {
	for _, text := range []string{
		`{"ready":{}}`, `{"request":{}}`, `{}`, `{"ready":{},"request":{}}`, `{"request":null}`, `{"request":{"id":1}}`,
		`{"ready":{}}{"ready":{}}`, `[]`, `{"serve":{}}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var e protocol.Event
		if err := wire.DecodeEvent(text, &e); err == nil && (e.Ready == nil) == (e.Request == nil) {
			t.Errorf("%s is accepted as %+v", text, e)
		}
	})
}
