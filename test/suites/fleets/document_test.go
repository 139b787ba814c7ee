// SPDX-License-Identifier: Apache-2.0

package fleets

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const document = "docs/install/fleets.md"

// TestDocument runs each `oc http01 render` of the document in its order, and builds the
// folders that it names with kustomize.
func TestDocument(t *testing.T) {
	f := newFleet(t)
	text := must1(os.ReadFile(filepath.Join(repository, filepath.FromSlash(document))))(t)
	bin := t.TempDir()
	must(t, os.Symlink(f.program, filepath.Join(bin, "oc-http01")))
	// As oc does with plugins.
	must(t, os.WriteFile(filepath.Join(bin, "oc"), []byte("#!/bin/sh\nshift\nexec oc-http01 \"$@\"\n"), 0o700))
	ran := 0
	for _, found := range regexp.MustCompile(`(?m)^\$ (oc http01 render (?:.*\\\n)*.*)$`).FindAllStringSubmatch(
		string(text), -1) {
		cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", found[1])
		cmd.Dir = f.dir
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "IMAGE="+image, "NEW_IMAGE="+
			strings.ReplaceAll(image, "0123", "4567"))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", found[1], err, out)
		}
		ran++
	}
	folders := 0
	for _, found := range regexp.MustCompile(`-k (fleet[/a-z0-9]*)`).FindAllStringSubmatch(string(text), -1) {
		if len(f.build(t, found[1])) == 0 {
			t.Errorf("%s has no object", found[1])
		}
		folders++
	}
	if ran < 4 || folders < 3 {
		t.Errorf("the document has %d renderings and %d folders", ran, folders)
	}
}
