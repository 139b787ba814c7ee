// SPDX-License-Identifier: Apache-2.0

package stabletest

import (
	"net/netip"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestCompare: a renamed line is one that is gone and a new one.
func TestCompare(t *testing.T) {
	t.Parallel()
	got := compare([]string{"a", "b", "c"}, []string{"a", "c", "d"})
	if diff := cmp.Diff([]change{{removed, "b"}, {added, "d"}}, got, cmp.AllowUnexported(change{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

type header struct {
	Kind string `json:"kind"`
}

type document struct {
	header

	Addresses []netip.Addr       `json:"addresses"`
	Counts    map[string]float64 `json:"counts,omitempty"`
	Parts     []*struct {
		At    time.Time `json:"at,omitzero"`
		Ready bool      `json:"ready"`
	} `json:"parts"`
	Internal int `json:"-"`
}

func TestFields(t *testing.T) {
	t.Parallel()
	want := []string{
		"Document kind string", "Document addresses[] string", "Document counts.* number optional",
		"Document parts[].at string optional", "Document parts[].ready boolean",
	}
	if diff := cmp.Diff(want, Fields("Document", reflect.TypeFor[document]())); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
