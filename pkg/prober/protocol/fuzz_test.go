// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/http01-proxyd/http01-proxyd/internal/wire"
	"github.com/http01-proxyd/http01-proxyd/pkg/findings/cause"
)

// FuzzResponse decodes what a hostile prober can send: an accepted response has exactly
// one payload, and its texts are bounded and printable.
func FuzzResponse(f *testing.F) {
	for _, text := range []string{
		`{"id":1,"error":{"reason":2}}`, `{"id":1,"certificate":{"issuer":"a\nb","serial":"1f","names":["a.example"]}}`,
		`{"id":1,"lookup":{"records":[{"addresses":["192.0.2.5"]},{"failure":"error"}]}}`,
		`{"id":1,"fetch":{"status":200,"server":"x","body":"YQ==","cause":"ingress-refused"}}`,
		`{"id":1,"clock":{"offset":-1}}`, `{"id":1,"endpoint":{"status":200}}`,
		`{"id":1}`, `{"id":1,"clock":{},"lookup":{}}`, `{"id":1,"clock":null}`, `{"clock":{}}{"clock":{}}`,
		`{"id":1,"lookup":{"failure":"x"}}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var r Response
		if wire.DecodeEvent(text, &r) != nil {
			return
		}
		r.Sanitize()
		texts, count := textsOf(&r)
		if count != 1 {
			t.Errorf("%s is accepted with %d payloads", text, count)
		}
		for _, s := range texts {
			if len(s) > 4<<10 || strings.ContainsFunc(s, func(c rune) bool { return !unicode.IsPrint(c) }) {
				t.Errorf("%s has the text %q", text, s)
			}
		}
	})
}

// textsOf returns what may be printed of a response, and the number of its payloads.
func textsOf(r *Response) (texts []string, payloads int) {
	if r.Error != nil {
		texts, payloads = append(texts, r.Error.Error()), payloads+1
	}
	if r.Certificate != nil {
		texts, payloads = append(texts, append(r.Certificate.Names, r.Certificate.Issuer, r.Certificate.Serial)...), payloads+
			1
	}
	if r.Lookup != nil {
		payloads++
		texts = append(texts, string(r.Lookup.Records[0].Failure), string(r.Lookup.Records[1].Failure))
		for _, addr := range slices.Concat(r.Lookup.Records[0].Addresses, r.Lookup.Records[1].Addresses) {
			texts = append(texts, addr.String())
		}
	}
	if fetch := r.Fetch; fetch != nil {
		texts = append(texts, fetch.Server, fetch.ProxyStatus, fetch.Via, fetch.Location, fetch.ContentType, fetch.Cause,
			fetch.ResponseCause, fetch.UpstreamAddr.String())
		texts, payloads = append(texts, fetch.Details.Text(cause.Context{})), payloads+1
	}
	if r.Clock != nil {
		payloads++
	}
	if r.Endpoint != nil {
		texts, payloads = append(texts, r.Endpoint.LastAddr.String(), r.Endpoint.Details.Error()), payloads+1
	}
	return texts, payloads
}
