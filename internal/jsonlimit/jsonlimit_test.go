// SPDX-License-Identifier: Apache-2.0

package jsonlimit_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/internal/jsonlimit"
)

func TestCut(t *testing.T) {
	t.Parallel()
	for text, values := range map[string]int{
		``: 0, `1`: 0, `{}`: 1, `[1,2,3]`: 3, `"a,b{[\",["`: 0, `{"a\\":[{},{}]}`: 5, `]]}[`: 1, `[[[[`: 4,
	} {
		if got, more := jsonlimit.Cut([]byte(text), values); string(got) != text || more {
			t.Errorf("%s has not %d values: %s, %t", text, values, got, more)
		}
		if _, more := jsonlimit.Cut([]byte(text), values-1); !more && values > 0 {
			t.Errorf("%s has less than %d values", text, values)
		}
	}
	const text = `{"a": [1, {"b": "x,{"}, []], "c": {"d": 2, "e": 3}, "f": 4}`
	for limit, want := range []string{
		`{}`, `{"a": []}`, `{"a": [1]}`, `{"a": [1, {}]}`, `{"a": [1, {"b": "x,{"}]}`, `{"a": [1, {"b": "x,{"}, []]}`,
		`{"a": [1, {"b": "x,{"}, []]}`, `{"a": [1, {"b": "x,{"}, []], "c": {}}`,
		`{"a": [1, {"b": "x,{"}, []], "c": {"d": 2}}`, `{"a": [1, {"b": "x,{"}, []], "c": {"d": 2, "e": 3}}`, text,
	} {
		got, more := jsonlimit.Cut([]byte(text), limit)
		if string(got) != want || more != (want != text) || !json.Valid(got) {
			t.Errorf("%d values: %s, %t, want %s", limit, got, more, want)
		}
	}
}

// FuzzCut: what remains of a valid text is valid, with the limit of values.
func FuzzCut(f *testing.F) {
	f.Add(`{"a": [1, {"b": "x,{"}, []], "c\"": {"d": 2}}`, 3)
	f.Add(strings.Repeat("[", 20)+strings.Repeat("]", 20), 7)
	f.Fuzz(func(t *testing.T, text string, limit int) {
		got, _ := jsonlimit.Cut([]byte(text), limit)
		if json.Valid([]byte(text)) && !json.Valid(got) {
			t.Errorf("%q became %q", text, got)
		}
		if _, more := jsonlimit.Cut(got, max(limit, 0)+1); more {
			t.Errorf("%q became %q, which has more than %d values", text, got, limit)
		}
	})
}
