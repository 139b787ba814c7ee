// SPDX-License-Identifier: Apache-2.0

package upstream_test

import (
	"testing"

	"github.com/http01-proxyd/http01-proxyd/pkg/catalogue"
	"github.com/http01-proxyd/http01-proxyd/pkg/upstream"
)

// TestCausesAndCatalogue: each cause has an entry of its own, which
// docs/troubleshooting.md names beside it, and no entry has a cause that never
// comes.
func TestCausesAndCatalogue(t *testing.T) {
	t.Parallel()
	entries := make(map[string]catalogue.ID)
	for _, e := range catalogue.All() {
		if e.Cause == "" {
			continue
		}
		if other := entries[e.Cause]; other != "" || !upstream.Cause(e.Cause).Known() {
			t.Errorf("%s has the cause %q, which is not known, or which %q has too", e.ID, e.Cause, other)
		}
		entries[e.Cause] = e.ID
	}
	for _, c := range upstream.Causes() {
		got := (&upstream.Error{Cause: c}).Finding().ID
		if entries[string(c)] == "" || got != entries[string(c)] {
			t.Errorf("%s is %q, and has the entry %q", c, got, entries[string(c)])
		}
	}
}
