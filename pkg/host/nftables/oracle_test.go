// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nftables

import (
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/http01-proxyd/http01-proxyd/pkg/host/nftables/ruleset"
)

// TestOracle loads each hand-written .nft file into the real nft. Its listing must equal our
// table's listing, except for the owner flag.
func TestOracle(t *testing.T) {
	tests := []struct {
		file string
		port uint16
		vips []netip.Addr
	}{
		{"none.nft", 8888, nil},
		{"ipv4.nft", 8888, parseAddrs("192.0.2.5")},
		{"ipv6.nft", 8888, parseAddrs("2001:db8::5")},
		{"dual.nft", 8888, parseAddrs("2001:db8::5", "192.0.2.5")},
		{"several.nft", 8888, parseAddrs("2001:db8::9", "192.0.2.9", "198.51.100.7", "192.0.2.5", "2001:db8::5")},
		{"port.nft", 9443, parseAddrs("192.0.2.5", "2001:db8::5")},
	}
	files, err := filepath.Glob("testdata/*.nft")
	if err != nil || len(files) != len(tests) {
		t.Fatalf("%d files in testdata, %d of them tested (%v)", len(files), len(tests), err)
	}
	for _, tt := range tests {
		t.Run(tt.file, func(t *testing.T) {
			c := openConn(t)
			text, err := os.ReadFile(filepath.Join("testdata", tt.file))
			must(t, err)
			table := ruleset.New(tt.port, tt.vips)
			want := loadAndList(t, string(text))
			printed := loadAndList(t, table.String())
			if diff := cmp.Diff(want, printed); diff != "" {
				t.Errorf("String of the ruleset (-nft file +ours):\n%s", diff)
			}

			apply(t, c, table)
			if diff := cmp.Diff(want, listBothFormats(t)); diff != "" {
				t.Errorf("the table in the kernel (-nft file +ours):\n%s", diff)
			}
			verify(t, c)
			if !strings.Contains(listTable(t), "flags owner") {
				t.Error("the table has no owner")
			}

			// Install the same table by a change of elements.
			apply(t, c, ruleset.New(tt.port, parseAddrs("192.0.2.66", "2001:db8::66", "192.0.2.5")))
			verify(t, c)
			apply(t, c, table)
			if diff := cmp.Diff(want, listBothFormats(t)); diff != "" {
				t.Errorf("after a change of elements and back (-nft file +ours):\n%s", diff)
			}
			verify(t, c)
		})
	}
}

// listing is the table in both output formats of nft.
type listing struct {
	Text string
	JSON any
}

// loadAndList loads a file, lists the table and deletes it.
func loadAndList(t *testing.T, file string) listing {
	t.Helper()
	loadRuleset(t, file)
	l := listBothFormats(t)
	nft(t, "delete", "table", "inet", ruleset.Name)
	return l
}

func listBothFormats(t *testing.T) listing {
	t.Helper()
	text := listTable(t, "-s")
	// The owner's name, and the flag that a file cannot set permanently.
	text = regexp.MustCompile(` # progname.*`).ReplaceAllString(text, "")
	text = strings.Replace(text, "\tflags owner\n\n", "", 1)
	var doc any
	must(t, json.Unmarshal([]byte(listTable(t, "-s", "-j")), &doc))
	return listing{Text: text, JSON: withoutHandles(doc)}
}

// withoutHandles removes the handles, which depend on the order of creation, and the table's
// flags, for which nft 1.0.6 prints the family. The text output contains the flags.
func withoutHandles(v any) any {
	switch v := v.(type) {
	case map[string]any:
		delete(v, "handle")
		if table, ok := v["table"].(map[string]any); ok {
			delete(table, "flags")
		}
		for k := range v {
			v[k] = withoutHandles(v[k])
		}
	case []any:
		for i := range v {
			v[i] = withoutHandles(v[i])
		}
	}
	return v
}
