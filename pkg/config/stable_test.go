// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"flag"
	"regexp"
	"strings"
	"testing"

	"github.com/http01-proxyd/http01-proxyd/internal/stabletest"
	"github.com/http01-proxyd/http01-proxyd/pkg/config"
)

var update = flag.Bool("update", false, "write docs/reference/stable/configuration.txt")

// TestStableKeys holds the keys that administrators write to docs/reference/stable.
func TestStableKeys(t *testing.T) {
	t.Parallel()
	stabletest.Check(t, *update, "../..", "configuration", keysBelow(t, ""))
}

// keysBelow returns the keys of a section, and of the sections in it: the message about an unknown key
// lists them.
func keysBelow(t *testing.T, section string) (keys []string) {
	t.Helper()
	text := "0: 0"
	if section != "" {
		text = section + ": {0: 0}"
	}
	_, err := config.Parse("c.yaml", []byte(text))
	if err == nil {
		t.Fatalf("%s is accepted", text)
	}
	list := regexp.MustCompile(`unknown key .*use one of ([\w, ]+)`).FindStringSubmatch(err.Error())
	if list == nil {
		return nil // not a section
	}
	for name := range strings.SplitSeq(list[1], ", ") {
		if section != "" {
			keys = append(keys, section+"."+name)
			continue
		}
		keys = append(keys, name)
		keys = append(keys, keysBelow(t, name)...)
	}
	return keys
}
